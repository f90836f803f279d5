// Cells whose state follows an ODE dx/dt = drive(x) - rate(x) x, while the inputs stay constant.

// A cell defines `sense(inputs)`, which keeps what follows from the inputs alone, and `field(x, rate, drive)`. A factor
// of a neuron's time constant divides both its rate and its drive.
class OdeCell extends BaseCell {
  constructor(data) {
    super(data);
    this.solver = new OdeSolver(data);
    // No solver step moves a held neuron, so that no other one sees it move.
    this.heldField = (x, rate, drive) => {
      this.field(x, rate, drive);
      for (const neuron of this.held.keys()) rate[neuron] = drive[neuron] = 0;
    };
  }

  advance(inputs, state, elapsed) {
    this.sense(inputs);
    return this.solver.integrate(this.heldField, state.slice(), elapsed);
  }

  // A held neuron has the time constant that it would have if it were free.
  timeConstants(inputs, before) {
    const found = new Float64Array(this.units);
    this.sense(inputs);
    this.field(this.begun(before), found, this.solver.drive);
    for (let j = 0; j < this.units; j++) found[j] = 1 / found[j];
    return found;
  }
}
