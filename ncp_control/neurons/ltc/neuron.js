// Liquid time-constant neurons with conductance synapses and gap junctions:
//
//   a_ij = w_ij sigmoid(sigma_ij (v_i - mu_ij))
//   cm_j dv_j/dt = gleak_j (vleak_j - v_j) + sum_i a_ij (E_ij - v_j) + sum_k gap_jk (v_k - v_j)

// As in Python, a synapse that is cut still has the smallest conductance that there is.
const SMALLEST_CONDUCTANCE = 1e-8;

// A factor's size scales the conductance, and its sign turns the reversal potential.
class Conductances {
  constructor(edges, w, mu, sigma, E) {
    this.edges = edges;
    this.whole = { w: unpacked(w), E: unpacked(E) };
    this.mu = unpacked(mu);
    this.sigma = unpacked(sigma);
    this.w = this.whole.w.slice();
    this.E = this.whole.E.slice();
  }

  weigh(factors) {
    for (let k = 0; k < factors.length; k++) {
      this.w[k] = Math.max(this.whole.w[k] * Math.abs(factors[k]), SMALLEST_CONDUCTANCE);
      this.E[k] = factors[k] < 0 ? -this.whole.E[k] : this.whole.E[k];
    }
  }

  // Adds each synapse's conductance, and its current into v = 0, to those of its target.
  add(values, conductance, current) {
    const { w, mu, sigma, E } = this, { source, start } = this.edges;
    for (let j = 0; j < conductance.length; j++) {
      let open = conductance[j], flow = current[j];
      for (let k = start[j], end = start[j + 1]; k < end; k++) {
        const a = w[k] / (1 + Math.exp(sigma[k] * (mu[k] - values[source[k]])));
        open += a;
        flow += a * E[k];
      }
      conductance[j] = open;
      current[j] = flow;
    }
  }

  currents(values, v) {
    const { w, mu, sigma, E } = this, { source, target, count } = this.edges, found = new Float64Array(count);
    for (let k = 0; k < count; k++)
      found[k] = w[k] / (1 + Math.exp(sigma[k] * (mu[k] - values[source[k]]))) * (E[k] - v[target[k]]);
    return found;
  }
}

class LtcCell extends OdeCell {
  constructor(data) {
    super(data);
    this.gleak = unpacked(data.gleak);
    this.vleak = unpacked(data.vleak);
    this.cm = unpacked(data.cm);
    this.fromInputs = new Conductances(this.sensory, data.sensory_w, data.sensory_mu, data.sensory_sigma, data.sensory_E);
    this.between = new Conductances(this.synapses, data.w, data.mu, data.sigma, data.E);
    this.wholeGap = unpacked(data.gap);
    for (const name of ["input_scale", "input_shift", "output_scale", "output_shift"])
      this[name] = data[name] && unpacked(data[name]);
    for (const name of ["slow", "leak", "sensedConductance", "sensedCurrent"]) this[name] = new Float64Array(this.units);
    this.tune();
  }

  weigh(sensory, synapses, gaps) {
    this.fromInputs.weigh(sensory);
    this.between.weigh(synapses);
    // A gap junction has no reversal potential that a sign could turn.
    this.gap = this.wholeGap.map((gap, k) => Math.max(gap * Math.abs(gaps[k]), SMALLEST_CONDUCTANCE));
    this.capacitance = this.cm.map((cm, j) => cm * this.slowness[j]);
    for (let j = 0; j < this.units; j++) {
      this.slow[j] = this.gleak[j];
      this.leak[j] = this.gleak[j] * this.vleak[j];
    }
    this.gapEnds.forEach((neuron, k) => { this.slow[neuron] += this.gap[k >> 1]; });
  }

  mapped(inputs) {
    const { input_scale: scale, input_shift: shift } = this;
    return scale ? scale.map((factor, i) => inputs[i] * factor + (shift ? shift[i] : 0)) : inputs;
  }

  sense(inputs) {
    this.sensedConductance.set(this.slow);
    this.sensedCurrent.set(this.leak);
    this.fromInputs.add(this.mapped(inputs), this.sensedConductance, this.sensedCurrent);
  }

  field(v, rate, drive) {
    const { gap, gapEnds, capacitance } = this;
    rate.set(this.sensedConductance);
    drive.set(this.sensedCurrent);
    this.between.add(v, rate, drive);
    for (let k = 0; k < gap.length; k++) {
      const one = gapEnds[2 * k], other = gapEnds[2 * k + 1];
      drive[one] += gap[k] * v[other];
      drive[other] += gap[k] * v[one];
    }
    for (let j = 0; j < v.length; j++) {
      rate[j] /= capacitance[j];
      drive[j] /= capacitance[j];
    }
  }

  currents(inputs, before) {
    const v = this.begun(before), { gapEnds } = this;
    return {
      sensory: this.fromInputs.currents(this.mapped(inputs), v),
      synapses: this.between.currents(v, v),
      gaps: this.gap.map((gap, k) => gap * (v[gapEnds[2 * k + 1]] - v[gapEnds[2 * k]])),
    };
  }

  motor(state) {
    const { output_scale: scale, output_shift: shift } = this, found = super.motor(state);
    return scale ? found.map((v, i) => v * scale[i] + (shift ? shift[i] : 0)) : found;
  }
}

CELL_KINDS.LTC = (data) => new LtcCell(data);
