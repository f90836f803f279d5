// Closed-form continuous-time cells, with linear maps f1, f2, a, b of x = [inputs, state] and time t elapsed:
//
//   default:  h' = tanh(f1) (1 - s) + s tanh(f2),   s = sigmoid(a t + b)
//   no_gate:  h' = tanh(f1) + s tanh(f2)
//   pure:     h' = A - A exp(-t (w_tau + |f1|)) f1
//
// A neuron that is k times slower sees the time t / k.

class BaseCfcCell extends BaseCell {
  constructor(data) {
    super(data);
    this.mode = data.mode;
    this.maps = data.maps;
    this.bias = unpacked(data.bias);
    this.wTau = data.w_tau && unpacked(data.w_tau);
    this.A = data.A && unpacked(data.A);
    this.row = new Float64Array(this.maps);
  }

  // The new state of neuron j from its row of maps.
  combined(j, elapsed) {
    const { row, mode } = this, t = elapsed / this.slowness[j];
    if (mode === "pure") return this.A[j] - this.A[j] * Math.exp(-t * (this.wTau[j] + Math.abs(row[0]))) * row[0];
    const f1 = Math.tanh(row[0]), f2 = Math.tanh(row[1]), s = logistic(row[2] * t + row[3]);
    return mode === "no_gate" ? f1 + s * f2 : f1 * (1 - s) + s * f2;
  }

  // How fast the gate of neuron j closes with time.
  constantOf(j) {
    const rate = this.mode === "pure" ? this.wTau[j] + Math.abs(this.row[0]) : Math.abs(this.row[2]);
    return this.slowness[j] / rate;
  }
}

class CfcCell extends BaseCfcCell {
  constructor(data) {
    super(data);
    this.layers = unpacked(data.layers);
    this.places = unpacked(data.places);
    // Synapses and every neuron's membrane, with one weight for each map.
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
        next[j] = this.combined(j, elapsed);
      }
      for (let j = layers[layer]; j < layers[layer + 1]; j++) found[j] = next[j];
      this.hold(found);
    }
    return found;
  }

  // Each synapse's share of f1, and in modes with two of them of their mean.
  currents(inputs, before, after) {
    const { maps, layers, sensory, synapses } = this, v = this.begun(before), single = this.mode === "pure";
    const mean = (weights, k) => single ? weights[k * maps] : (weights[k * maps] + weights[k * maps + 1]) / 2;
    const found = this.withoutGaps(new Float64Array(sensory.count), new Float64Array(synapses.count));
    for (let k = 0; k < sensory.count; k++) found.sensory[k] = inputs[sensory.source[k]] * mean(this.sensoryWeight, k);
    for (let layer = 0; layer + 1 < layers.length; layer++) {
      const first = layers[layer];
      for (let k = synapses.start[first]; k < synapses.start[layers[layer + 1]]; k++) {
        const source = synapses.source[k];
        found.synapses[k] = (source < first ? after : v)[source] * mean(this.weight, this.places[k]);
      }
    }
    return found;
  }

  timeConstants(inputs, before) {
    const found = new Float64Array(this.units), v = this.begun(before);
    for (let j = 0; j < this.units; j++) {
      this.fill(j, inputs, v);
      found[j] = this.constantOf(j);
    }
    return found;
  }
}

// A CfC whose maps read x through dense layers with the activation 1.7159 tanh(0.666 x), which hide the synapses.
class BackboneCfcCell extends BaseCfcCell {
  constructor(data) {
    super(data);
    this.backbone = data.backbone.map((layer) => new LinearLayer(layer));
    this.head = unpacked(data.head);
    this.x = new Float64Array(this.inputs + this.units);
    this.between = this.backbone.map(({ rows }) => new Float64Array(rows));
    this.tune();
  }

  weigh() {}

  // Returns what the maps read.
  read(inputs, state) {
    this.x.set(inputs);
    this.x.set(state, this.inputs);
    let x = this.x;
    this.backbone.forEach((layer, k) => {
      x = layer.of(x, this.between[k]);
      for (let i = 0; i < x.length; i++) x[i] = 1.7159 * Math.tanh(0.666 * x[i]);
    });
    return x;
  }

  each(inputs, state, value) {
    const { maps, row } = this, x = this.read(inputs, state), found = new Float64Array(this.units);
    for (let j = 0; j < this.units; j++) {
      for (let m = 0; m < maps; m++) row[m] = this.bias[j * maps + m] + dot(this.head, (j * maps + m) * x.length, x, x.length);
      found[j] = value(j);
    }
    return found;
  }

  advance(inputs, state, elapsed) { return this.each(inputs, state, (j) => this.combined(j, elapsed)); }

  currents() { return this.unknownCurrents(); }

  timeConstants(inputs, before) { return this.each(inputs, before, (j) => this.constantOf(j)); }
}
