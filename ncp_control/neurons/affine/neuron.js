// ODE neurons with one weight for each synapse, f = act(gamma_r x + gamma I + mu):
//
//   NeuralLTC:  dx/dt = -(1 / tau + f) x + f A, or with |f| in the rate if it is signed
//   CTRNN:      dx/dt = -x / tau + f
//   NeuralODE:  dx/dt = f

const ACTIVATIONS = {
  sigmoid: logistic,
  relu: (x) => x < 0 ? 0 : x,
  tanh: Math.tanh,
  hard_tanh: (x) => x < -1 ? -1 : x > 1 ? 1 : x,
};

const scaledBy = (weights, factors) => weights.map((weight, k) => weight * factors[k]);

// The value of each synapse's source times its weight.
const shares = (values, source, weights) => weights.map((weight, k) => weight * values[source[k]]);

class AffineCell extends OdeCell {
  constructor(data) {
    super(data);
    this.whole = { gamma: unpacked(data.gamma), gammaR: unpacked(data.gamma_r) };
    this.mu = unpacked(data.mu);
    this.leak = unpacked(data.leak);
    this.liquid = data.liquid;
    this.signed = data.signed;
    this.A = data.A && unpacked(data.A);
    this.activate = ACTIVATIONS[data.activation];
    this.sensed = new Float64Array(this.units);
    this.tune();
  }

  weigh(sensory, synapses) {
    this.gamma = scaledBy(this.whole.gamma, sensory);
    this.gammaR = scaledBy(this.whole.gammaR, synapses);
  }

  // found = base + what arrives at every neuron
  arriving(values, { source, start }, weights, base, found) {
    for (let j = 0; j < found.length; j++) {
      let sum = 0;
      for (let k = start[j], end = start[j + 1]; k < end; k++) sum += weights[k] * values[source[k]];
      found[j] = sum + base[j];
    }
  }

  sense(inputs) { this.arriving(inputs, this.sensory, this.gamma, this.mu, this.sensed); }

  field(x, rate, drive) {
    const { leak, liquid, signed, A, activate, slowness } = this;
    this.arriving(x, this.synapses, this.gammaR, this.sensed, drive);
    for (let j = 0; j < x.length; j++) {
      const f = activate(drive[j]);
      rate[j] = (liquid ? leak[j] + (signed ? Math.abs(f) : f) : leak[j]) / slowness[j];
      drive[j] = (liquid ? f * A[j] : f) / slowness[j];
    }
  }

  // Each synapse's share of the argument of f as the step begins.
  currents(inputs, before) {
    return this.withoutGaps(
      shares(inputs, this.sensory.source, this.gamma), shares(this.begun(before), this.synapses.source, this.gammaR),
    );
  }
}

CELL_KINDS.NeuralLTC = CELL_KINDS.CTRNN = CELL_KINDS.NeuralODE = (data) => new AffineCell(data);
