// Cells whose layers update in the wiring's order, from linear maps of x = [inputs, state].
//
// A cell defines `combined(j, elapsed, state)`, the new state of neuron j from its row of maps, `constantOf(j)`, its
// time constant from the same, and `share(weights, k)`, what synapse k of `weights` has of the currents.

class LayeredCell extends BaseCell {
  constructor(data) {
    super(data);
    this.maps = data.maps;
    this.bias = unpacked(data.bias);
    this.row = new Float64Array(this.maps);
    this.layers = unpacked(data.layers);
    this.places = unpacked(data.places);
    // The synapses that the maps have, with one weight for each map.
    this.source = unpacked(data.source);
    this.start = unpacked(data.start);
    this.whole = { weight: unpacked(data.weight), sensory: unpacked(data.sensory_weight) };
    this.next = new Float64Array(this.units);
    this.tune();
  }

  weigh(sensory, synapses) {
    const { maps } = this;
    this.weight = this.whole.weight.slice();
    synapses.forEach((factor, k) => {
      for (let m = 0; m < maps; m++) this.weight[this.places[k] * maps + m] *= factor;
    });
    this.sensoryWeight = this.whole.sensory.map((weight, k) => weight * sensory[Math.floor(k / maps)]);
  }

  // Fills the row of maps of neuron j.
  fill(j, inputs, state) {
    const { row, maps, bias, weight, sensoryWeight, source, start } = this;
    for (let m = 0; m < maps; m++) row[m] = bias[j * maps + m];
    for (let k = this.sensory.start[j], end = this.sensory.start[j + 1]; k < end; k++) {
      const value = inputs[this.sensory.source[k]];
      for (let m = 0; m < maps; m++) row[m] += sensoryWeight[k * maps + m] * value;
    }
    for (let k = start[j], end = start[j + 1]; k < end; k++) {
      const value = state[source[k]];
      for (let m = 0; m < maps; m++) row[m] += weight[k * maps + m] * value;
    }
  }

  // Layer after layer: a neuron reads earlier layers as they are after this step, and all others as before it.
  advance(inputs, state, elapsed) {
    const found = state.slice(), { layers, next } = this;
    for (let layer = 0; layer + 1 < layers.length; layer++) {
      for (let j = layers[layer]; j < layers[layer + 1]; j++) {
        this.fill(j, inputs, found);
        next[j] = this.combined(j, elapsed, found);
      }
      for (let j = layers[layer]; j < layers[layer + 1]; j++) found[j] = next[j];
      this.hold(found);
    }
    return found;
  }

  currents(inputs, before, after) {
    const { layers, sensory, synapses } = this, v = this.begun(before);
    const found = this.withoutGaps(new Float64Array(sensory.count), new Float64Array(synapses.count));
    for (let k = 0; k < sensory.count; k++)
      found.sensory[k] = inputs[sensory.source[k]] * this.share(this.sensoryWeight, k);
    for (let layer = 0; layer + 1 < layers.length; layer++) {
      const first = layers[layer];
      for (let k = synapses.start[first]; k < synapses.start[layers[layer + 1]]; k++) {
        const source = synapses.source[k];
        found.synapses[k] = (source < first ? after : v)[source] * this.share(this.weight, this.places[k]);
      }
    }
    return found;
  }

  // Every layer is taken at the state before the step.
  timeConstants(inputs, before) {
    const found = new Float64Array(this.units), v = this.begun(before);
    for (let j = 0; j < this.units; j++) {
      this.fill(j, inputs, v);
      found[j] = this.constantOf(j);
    }
    return found;
  }
}
