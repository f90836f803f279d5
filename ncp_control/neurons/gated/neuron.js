// The LSTM and the GRU with torch's parameters, which count steps and ignore how much time has passed.

// A synapse's factor scales its weights in all gates. The candidate is the gate that says what to remember.
class GatedCell extends BaseCell {
  constructor(data) {
    super(data);
    this.whole = { input: unpacked(data.weight_ih), recurrent: unpacked(data.weight_hh) };
    this.biasInput = unpacked(data.bias_ih);
    this.biasRecurrent = unpacked(data.bias_hh);
    this.gates = this.biasInput.length / this.units;
    this.candidate = 2 * this.units;
    this.tune();
  }

  weigh(sensory, synapses) {
    this.input = this.weighed(this.whole.input, this.sensory, sensory, this.inputs);
    this.recurrent = this.weighed(this.whole.recurrent, this.synapses, synapses, this.units);
  }

  weighed(whole, { source, target }, factors, columns) {
    const found = whole.slice();
    factors.forEach((factor, k) => {
      for (let gate = 0; gate < this.gates; gate++) found[(gate * this.units + target[k]) * columns + source[k]] *= factor;
    });
    return found;
  }

  sensed(row, inputs) { return this.biasInput[row] + dot(this.input, row * this.inputs, inputs, this.inputs); }

  remembered(row, h) { return this.biasRecurrent[row] + dot(this.recurrent, row * this.units, h, this.units); }

  gate(row, inputs, h) { return this.sensed(row, inputs) + this.remembered(row, h); }

  // Each synapse's share of the argument of the candidate's tanh.
  currents(inputs, before) {
    const v = this.begun(before);
    const through = (weights, { source, target, count }, values) => {
      const found = new Float64Array(count);
      for (let k = 0; k < count; k++)
        found[k] = values[source[k]] * weights[(this.candidate + target[k]) * values.length + source[k]];
      return found;
    };
    return this.withoutGaps(through(this.input, this.sensory, inputs), through(this.recurrent, this.synapses, this.neurons(v)));
  }

  // After how many steps a state has fallen to 1/e that the second gate multiplies.
  timeConstants(inputs, before) {
    const v = this.begun(before), found = new Float64Array(this.units);
    for (let j = 0; j < this.units; j++) found[j] = 1 / softplus(-this.gate(this.units + j, inputs, v));
    return found;
  }
}

// The state is h and then c.
class LstmCell extends GatedCell {
  advance(inputs, state, elapsed) {
    const { units } = this, found = new Float64Array(2 * units);
    for (let j = 0; j < units; j++) {
      const i = logistic(this.gate(j, inputs, state)), f = logistic(this.gate(units + j, inputs, state));
      const g = Math.tanh(this.gate(2 * units + j, inputs, state)), o = logistic(this.gate(3 * units + j, inputs, state));
      const c = f * state[units + j] + i * g;
      found[j] = o * Math.tanh(c);
      found[units + j] = c;
    }
    return found;
  }
}

class GruCell extends GatedCell {
  advance(inputs, state, elapsed) {
    const { units } = this, found = new Float64Array(units);
    for (let j = 0; j < units; j++) {
      const r = logistic(this.gate(j, inputs, state)), z = logistic(this.gate(units + j, inputs, state));
      const n = Math.tanh(this.sensed(2 * units + j, inputs) + r * this.remembered(2 * units + j, state));
      found[j] = (1 - z) * n + z * state[j];
    }
    return found;
  }
}

CELL_KINDS.LSTM = (data) => new LstmCell(data);
CELL_KINDS.GRU = (data) => new GruCell(data);
