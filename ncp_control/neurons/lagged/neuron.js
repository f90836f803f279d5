// One layer on the last inputs: the state is these inputs, the oldest first, and the neurons follow from it.

class LaggedCell extends BaseCell {
  constructor(data) {
    super(data);
    this.lags = data.lags;
    this.hidden = new LinearLayer(data.hidden);
    this.whole = this.hidden.weight;
    this.tune();
  }

  // A sensory synapse has one weight for every lag.
  weigh(sensory) {
    const { source, target } = this.sensory, weight = this.whole.slice();
    sensory.forEach((factor, k) => {
      for (let lag = 0; lag < this.lags; lag++) weight[target[k] * this.stateSize + lag * this.inputs + source[k]] *= factor;
    });
    this.hidden.weight = weight;
  }

  neurons(state) { return this.hidden.of(state).map(Math.tanh); }

  advance(inputs, state, elapsed) {
    const found = new Float64Array(this.stateSize);
    found.set(state.subarray(this.inputs));
    found.set(inputs, this.stateSize - this.inputs);
    return found;
  }

  // Each input's share in the argument of the tanh, the sum over its lags.
  currents(inputs, before, after) {
    const { source, target, count } = this.sensory, { weight } = this.hidden, found = new Float64Array(count);
    for (let k = 0; k < count; k++)
      for (let place = source[k]; place < this.stateSize; place += this.inputs)
        found[k] += after[place] * weight[target[k] * this.stateSize + place];
    return this.withoutGaps(found, new Float64Array(0));
  }

  timeConstants(inputs, before) { return new Float64Array(this.units).fill(NaN); }
}

CELL_KINDS.LaggedMLP = (data) => new LaggedCell(data);
