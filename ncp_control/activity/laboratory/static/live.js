// A rollout that grows with every step, in the form in which the pictures read a recorded one.

class LiveSeries {
  // log: the pictures see logarithms, as those of time constants do.
  constructor(columns, log = false) {
    this.columns = columns;
    this.log = log;
    this.clear();
  }

  clear() {
    this.steps = 0;
    this.values = new Float32Array(0);
    this.low = new Array(this.columns).fill(0);
    this.high = new Array(this.columns).fill(0);
    this.counts = new Uint32Array(this.columns);
  }

  push(row) {
    const { columns } = this, start = this.steps * columns;
    // What was never known takes no memory.
    if (!this.values.length && row.every(Number.isNaN)) return this.steps++;
    if (start + columns > this.values.length) {
      const longer = new Float32Array(Math.max(256 * columns, 2 * start + columns)).fill(NaN);
      longer.set(this.values);
      this.values = longer;
    }
    for (let c = 0; c < columns; c++) {
      this.values[start + c] = row[c];
      const value = this.log ? Math.log10(row[c]) : row[c];
      if (!Number.isFinite(value)) continue;
      const first = this.counts[c]++ === 0;
      if (first || value < this.low[c]) this.low[c] = value;
      if (first || value > this.high[c]) this.high[c] = value;
    }
    return this.steps++;
  }

  at(step, column) {
    return step >= 0 && step < this.steps && this.values.length ? this.values[step * this.columns + column] : NaN;
  }

  raw(step, column) { return this.log ? Math.log10(this.at(step, column)) : this.at(step, column); }

  known(column) { return this.counts[column] > 0; }

  // All values so far, step by step.
  taken() {
    const count = this.steps * this.columns;
    return this.values.length ? this.values.slice(0, count) : new Float32Array(count).fill(NaN);
  }
}

// The ends of the capsules relative to the middle of what moves, and the middle itself. While a step is played, the
// newest pose is one between two steps; `stepped` is the middle at the steps themselves.
class LiveBody {
  constructor(drawn) {
    Object.assign(this, drawn);
    this.poses = new LiveSeries(4 * drawn.radii.length);
    this.depths = drawn.flat ? null : new LiveSeries(drawn.radii.length);
    this.between = null;
    this.ends = { at: (step, k) => this.pose(step, k) - (k % 2 ? this.aside(step) : this.middle(step, 0)) };
    this.along = { at: (step, axis) => this.middle(step, axis) };
    this.stepped = { at: (step, axis) => this.middle(step, axis, this.poses.at.bind(this.poses)) };
    this.depth = this.depths && { at: (step, k) => this.depths.at(step, k) };
  }

  clear() {
    this.poses.clear();
    if (this.depths) this.depths.clear();
    this.between = null;
  }

  push(ends, places) {
    this.poses.push(ends);
    if (this.depths) this.depths.push(places.filter((_, k) => k % 7 === 1));
    this.between = null;
  }

  pose(step, k) {
    return this.between && step === this.poses.steps - 1 ? this.between[k] : this.poses.at(step, k);
  }

  // The camera follows a body in the plane in both directions, and one on the ground along it.
  aside(step) { return this.above ? this.middle(step, 1) : 0; }

  // pose(step, k): where an end is; by default where it is shown.
  middle(step, axis, pose = this.pose.bind(this)) {
    let sum = 0, count = 0;
    this.moving.forEach((moves, k) => {
      if (!moves) return;
      sum += pose(step, 4 * k + axis) + pose(step, 4 * k + 2 + axis);
      count += 2;
    });
    return sum / count;
  }
}
