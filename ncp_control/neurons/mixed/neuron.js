// The long memory of an LSTM in front of another cell; the state is the inner cell's and then the memory c:
//
//   g, i, f, o = W x + b + R h
//   c' = sigmoid(f + 1) c + sigmoid(i) tanh(g),    h <- sigmoid(o) tanh(c'),    h' = inner(x, h, elapsed)

class MixedCell extends BaseCell {
  constructor(data) {
    super(data);
    this.inner = makeCell(data.inner);
    this.input = unpacked(data.input_weight);
    this.bias = unpacked(data.input_bias);
    this.recurrent = unpacked(data.recurrent_weight);
    this.size = this.inner.stateSize;
    this.tune();
  }

  weigh() { this.inner.tune({ constants: this.slowness }); }

  // The inner state and the memory after the LSTM.
  remembered(inputs, state) {
    const { size } = this, h = new Float64Array(size), c = new Float64Array(size);
    const gate = (row) =>
      this.bias[row] + dot(this.input, row * this.inputs, inputs, this.inputs) + dot(this.recurrent, row * size, state, size);
    for (let j = 0; j < size; j++) {
      const keep = logistic(gate(2 * size + j) + 1);
      c[j] = keep * state[size + j] + logistic(gate(size + j)) * Math.tanh(gate(j));
      h[j] = logistic(gate(3 * size + j)) * Math.tanh(c[j]);
    }
    return { h, c };
  }

  innerState(state) { return state.subarray(0, this.size); }

  advance(inputs, state, elapsed) {
    const { h, c } = this.remembered(inputs, state), found = new Float64Array(2 * this.size);
    found.set(this.inner.step(inputs, h, elapsed));
    found.set(c, this.size);
    return found;
  }

  neurons(state) { return this.inner.neurons(this.innerState(state)); }

  motor(state) { return this.inner.motor(this.innerState(state)); }

  // At the state from which the inner cell's own step begins.
  currents(inputs, before, after) {
    return this.inner.currents(inputs, this.remembered(inputs, before).h, this.innerState(after));
  }

  timeConstants(inputs, before) { return this.inner.timeConstants(inputs, this.remembered(inputs, before).h); }
}

CELL_KINDS.MixedMemory = (data) => new MixedCell(data);
