// Liquid neurons with two weights a synapse, with linear maps f and g of x = [inputs, state]:
//
//   x' = x + (1 - exp(-elapsed / tau)) (m - x),   m = tanh(f - b x),   log tau = s low + (1 - s) high,   s = sigmoid(g)
//
// A neuron that is k times slower sees the time elapsed / k.

class DualCell extends LayeredCell {
  constructor(data) {
    super(data);
    this.brake = data.brake ? unpacked(data.brake) : new Float64Array(this.units);
    [this.low, this.high] = unpacked(data.logTau);
  }

  combined(j, elapsed, state) {
    const towards = Math.tanh(this.row[0] - this.brake[j] * state[j]);
    return state[j] - Math.expm1(-elapsed / this.constantOf(j)) * (towards - state[j]);
  }

  // The time constant of neuron j, with its factor.
  constantOf(j) {
    return Math.exp(this.high + (this.low - this.high) * logistic(this.row[1])) * this.slowness[j];
  }

  // Each synapse's share of f.
  share(weights, k) { return weights[k * this.maps]; }
}

CELL_KINDS.DualLTC = (data) => new DualCell(data);
