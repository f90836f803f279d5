// A GRU whose memory decays on several time scales tau_k at once:
//
//   r = softmax_k(-(R[x, h] - ln tau_k)^2)             which scales to read
//   q = tanh(Q[x, sum_k r_k m_k])                      the event
//   s = softmax_k(-(S[x, h] - ln tau_k)^2)             which scales to write
//   m_k' = ((1 - s_k) m_k + s_k q) exp(-elapsed / tau_k),    h' = sum_k m_k'
//
// The state is every neuron's memories, neuron by neuron. A neuron that is k times slower sees the time elapsed / k.

class CtGruCell extends BaseCell {
  constructor(data) {
    super(data);
    this.tau = unpacked(data.tau);
    this.logTau = unpacked(data.logTau);
    this.scales = this.tau.length;
    for (const name of ["retrieve", "detect", "store"]) this[name] = new LinearLayer(data[name]);
    this.seen = new Float64Array(this.inputs + this.units);
    this.read = new Float64Array(this.inputs + this.units);
    this.share = new Float64Array(this.scales);
    this.tune();
  }

  weigh() {}

  neurons(state) {
    const found = new Float64Array(this.units), { scales } = this;
    for (let j = 0; j < this.units; j++)
      for (let k = 0; k < scales; k++) found[j] += state[j * scales + k];
    return found;
  }

  look(inputs, state) {
    this.seen.set(inputs);
    this.seen.set(this.neurons(state), this.inputs);
  }

  // Fills `share` with how near a map of neuron j is to each scale: a softmax, as a product that does not overflow to
  // the difference of two infinities.
  weighScales(layer, j) {
    const { share, scales, seen, logTau } = this;
    let nearest = NaN, sum = 0;
    for (let k = 0; k < scales; k++) {
      const row = j * scales + k;
      share[k] = layer.bias[row] + dot(layer.weight, row * layer.columns, seen, layer.columns) - logTau[k];
      if (k === 0 || Math.abs(share[k]) < Math.abs(nearest)) nearest = share[k];
    }
    for (let k = 0; k < scales; k++) sum += share[k] = Math.exp((nearest - share[k]) * (nearest + share[k]));
    for (let k = 0; k < scales; k++) share[k] /= sum;
  }

  advance(inputs, state, elapsed) {
    const { share, scales, read, detect, tau } = this, found = new Float64Array(state.length);
    this.look(inputs, state);
    read.set(inputs);
    for (let j = 0; j < this.units; j++) {
      this.weighScales(this.retrieve, j);
      let sum = 0;
      for (let k = 0; k < scales; k++) sum += share[k] * state[j * scales + k];
      read[this.inputs + j] = sum;
    }
    for (let j = 0; j < this.units; j++) {
      const q = Math.tanh(detect.bias[j] + dot(detect.weight, j * detect.columns, read, detect.columns));
      const t = elapsed / this.slowness[j];
      this.weighScales(this.store, j);
      for (let k = 0; k < scales; k++)
        found[j * scales + k] = ((1 - share[k]) * state[j * scales + k] + share[k] * q) * Math.exp(-t / tau[k]);
    }
    return found;
  }

  // Each synapse's share of the argument of the event's tanh, with h read before the step.
  currents(inputs, before) {
    const { weight, columns } = this.detect;
    this.look(inputs, this.begun(before));
    const through = ({ source, target, count }, first) => {
      const found = new Float64Array(count);
      for (let k = 0; k < count; k++) found[k] = this.seen[first + source[k]] * weight[target[k] * columns + first + source[k]];
      return found;
    };
    return this.withoutGaps(through(this.sensory, 0), through(this.synapses, this.inputs));
  }

  // The mean of the scales, weighted as the neuron writes to them.
  timeConstants(inputs, before) {
    const found = new Float64Array(this.units);
    this.look(inputs, this.begun(before));
    for (let j = 0; j < this.units; j++) {
      this.weighScales(this.store, j);
      found[j] = dot(this.share, 0, this.tau, this.scales) * this.slowness[j];
    }
    return found;
  }
}

CELL_KINDS.CTGRU = (data) => new CtGruCell(data);
