// Liquid neurons with two weights a synapse, with linear maps f and g of x = [inputs, state]:
//
//   x' = x + (1 - exp(-elapsed / tau)) (m - x),   m = tanh(f - b x),   log tau = s low + (1 - s) high,   s = sigmoid(g)
//
// A neuron that is k times slower sees the time elapsed / k.

class DualCell extends BaseCell {
  constructor(data) {
    super(data);
    // Rows of two: what belongs to f, and what belongs to g.
    this.bias = unpacked(data.bias);
    this.whole = { weight: unpacked(data.weight), sensory: unpacked(data.sensory_weight) };
    this.brake = data.brake ? unpacked(data.brake) : new Float64Array(this.units);
    [this.low, this.high] = unpacked(data.logTau);
    this.layers = unpacked(data.layers);
    this.next = new Float64Array(this.units);
    this.tune();
  }

  weigh(sensory, synapses) {
    this.weight = this.whole.weight.map((weight, k) => weight * synapses[k >> 1]);
    this.sensoryWeight = this.whole.sensory.map((weight, k) => weight * sensory[k >> 1]);
  }

  // One of the maps of neuron j, f with 0 and g with 1, without its brake.
  map(which, j, inputs, state) {
    const { sensory, synapses } = this;
    let sum = this.bias[2 * j + which];
    for (let k = sensory.start[j], end = sensory.start[j + 1]; k < end; k++)
      sum += this.sensoryWeight[2 * k + which] * inputs[sensory.source[k]];
    for (let k = synapses.start[j], end = synapses.start[j + 1]; k < end; k++)
      sum += this.weight[2 * k + which] * state[synapses.source[k]];
    return sum;
  }

  // The time constant of neuron j, with its factor.
  constantOf(j, inputs, state) {
    const s = logistic(this.map(1, j, inputs, state));
    return Math.exp(this.high + (this.low - this.high) * s) * this.slowness[j];
  }

  // Layer after layer: a neuron reads earlier layers as they are after this step, and all others as before it.
  advance(inputs, state, elapsed) {
    const found = state.slice(), { layers, next, brake } = this;
    for (let layer = 0; layer + 1 < layers.length; layer++) {
      for (let j = layers[layer]; j < layers[layer + 1]; j++) {
        const towards = Math.tanh(this.map(0, j, inputs, found) - brake[j] * found[j]);
        next[j] = found[j] + (1 - Math.exp(-elapsed / this.constantOf(j, inputs, found))) * (towards - found[j]);
      }
      for (let j = layers[layer]; j < layers[layer + 1]; j++) found[j] = next[j];
      this.hold(found);
    }
    return found;
  }

  // Each synapse's share of f.
  currents(inputs, before, after) {
    const { layers, sensory, synapses } = this, v = this.begun(before);
    const found = this.withoutGaps(new Float64Array(sensory.count), new Float64Array(synapses.count));
    for (let k = 0; k < sensory.count; k++) found.sensory[k] = inputs[sensory.source[k]] * this.sensoryWeight[2 * k];
    for (let layer = 0; layer + 1 < layers.length; layer++) {
      const first = layers[layer];
      for (let k = synapses.start[first]; k < synapses.start[layers[layer + 1]]; k++) {
        const source = synapses.source[k];
        found.synapses[k] = (source < first ? after : v)[source] * this.weight[2 * k];
      }
    }
    return found;
  }

  // Every layer is taken at the state before the step.
  timeConstants(inputs, before) {
    const v = this.begun(before);
    return Float64Array.from({ length: this.units }, (_, j) => this.constantOf(j, inputs, v));
  }
}
