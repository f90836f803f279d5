// Solvers of fixed step for ODEs of the form dx/dt = drive(x) - rate(x) x.

// `field(x, rate, drive)` writes rate and drive of every neuron at x; x is moved in its place.
class OdeSolver {
  constructor({ solver, unfolds, units }) {
    this.take = { fused: this.fused, euler: this.euler, rk4: this.rk4 }[solver];
    this.unfolds = unfolds;
    for (const name of ["rate", "drive", "change", "total", "trial"]) this[name] = new Float64Array(units);
  }

  integrate(field, x, elapsed) {
    const h = elapsed / this.unfolds;
    for (let k = 0; k < this.unfolds; k++) this.take(field, x, h);
    return x;
  }

  // x' = (x + h drive) / (1 + h rate), with h = s / r and neither above 1, so that neither product overflows.
  fused(field, x, h) {
    const { rate, drive } = this, s = Math.min(h, 1), r = 1 / Math.max(h, 1);
    field(x, rate, drive);
    for (let j = 0; j < x.length; j++) x[j] += s * (drive[j] - rate[j] * x[j]) / (r + s * rate[j]);
  }

  euler(field, x, h) {
    this.slope(field, x);
    for (let j = 0; j < x.length; j++) x[j] += h * this.change[j];
  }

  rk4(field, x, h) {
    const { change, total, trial } = this;
    this.slope(field, x);
    total.set(change);
    for (const [ahead, weight] of [[0.5 * h, 2], [0.5 * h, 2], [h, 1]]) {
      for (let j = 0; j < x.length; j++) trial[j] = x[j] + ahead * change[j];
      this.slope(field, trial);
      for (let j = 0; j < x.length; j++) total[j] += weight * change[j];
    }
    for (let j = 0; j < x.length; j++) x[j] += h / 6 * total[j];
  }

  slope(field, x) {
    const { rate, drive, change } = this;
    field(x, rate, drive);
    for (let j = 0; j < x.length; j++) change[j] = drive[j] - rate[j] * x[j];
  }
}
