// Named lines, one below the other, with a cursor: observations, actions, reward, value.

const ROW = 22;

class TraceView {
  // lines(): [{ name, values(step), low, high, also(step)?, model(step)? }]; `also` is a second, dashed line on the same
  // scale, and `model` one in the colour of the model.
  // shaded(): steps with a shaded background, such as those with a random action.
  constructor(canvas, lines, go, shaded = () => []) {
    this.surface = new Surface(canvas);
    this.lines = lines;
    this.shaded = shaded;
    scrubs(canvas, (x) => this.stepAt(x), go);
  }

  resize() {
    this.surface.measure();
    const { context, width } = this.surface;
    font(context, 12);
    this.rows = this.lines();
    const widest = Math.max(0, ...this.rows.map((row) => context.measureText(row.name).width));
    this.left = Math.min(width * 0.4, widest + 10);
    this.across = width - this.left - 54;
    this.height = this.rows.length * ROW + 16;
    this.paper = null;
  }

  stepAt(x) {
    const { from, to } = shown();
    return Math.max(0, Math.min(state.activity.steps - 1, Math.round(from + (x - this.left) / this.across * (to - from))));
  }

  x(step, view) { return this.left + (step - view.from) / (view.to - view.from || 1) * this.across; }

  drawLines(context, view) {
    const { left, across } = this, bottom = this.rows.length * ROW, x = (step) => this.x(step, view);
    context.lineJoin = "round";
    context.fillStyle = theme.window;
    for (const step of this.shaded()) {
      if (step < view.from || step > view.to) continue;
      const begin = Math.max(left, x(step - 0.5));
      context.fillRect(begin, 0, Math.max(1, Math.min(left + across, x(step + 0.5)) - begin), bottom);
    }
    for (const start of state.activity.starts)
      if (start > view.from && start <= view.to) rule(context, x(start), 0, bottom, theme.muted, [3, 3]);
    this.rows.forEach((row, k) => {
      const top = k * ROW;
      context.fillStyle = theme.line;
      context.fillRect(left, top + ROW - 0.5, across, 0.5);
      font(context, 12);
      context.textBaseline = "middle";
      context.textAlign = "left";
      context.fillStyle = theme.muted;
      context.fillText(fitted(context, row.name, left - 8), 0, top + ROW / 2);
      const box = { left, width: across, top: top + 3, height: ROW - 6 };
      context.strokeStyle = theme.accent;
      context.lineWidth = 1;
      trace(context, row.values, view, box, row.low, row.high);
      if (row.also) {
        context.setLineDash([3, 2]);
        context.strokeStyle = theme.text;
        trace(context, row.also, view, box, row.low, row.high);
        context.setLineDash([]);
      }
      if (row.model) {
        context.strokeStyle = theme.model;
        trace(context, row.model, view, box, row.low, row.high);
      }
    });
    ticks(context, view.from, view.to, left, across, bottom + 9);
  }

  // If all steps are shown, the lines are drawn once; then only the cursor moves.
  draw() {
    if (state.activity.live) this.rows = this.lines();
    const context = this.surface.begin(this.height), view = shown();
    if (!isWhole(view)) {
      this.drawLines(context, view);
    } else {
      if (this.paper === null) this.paper = offscreen(this.surface, this.height, (paper) => this.drawLines(paper, view));
      context.drawImage(this.paper, 0, 0, this.surface.width, this.height);
    }
    font(context, 12);
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = theme.text;
    this.rows.forEach((row, k) => context.fillText(figure(row.values(state.step)), this.surface.width, k * ROW + ROW / 2));
    rule(context, this.x(state.step, view), 0, this.rows.length * ROW, theme.text);
  }
}

// `delay`: how many steps earlier the second series has its values, as a prediction of the next step has.
function linesOf(name, names, other, delay = 0) {
  const series = state.activity[name], second = other && state.activity[other];
  if (!series) return [];
  return names.map((title, column) => ({
    name: title,
    values: (step) => series.at(step, column),
    low: second ? Math.min(series.low[column], second.low[column]) : series.low[column],
    high: second ? Math.max(series.high[column], second.high[column]) : series.high[column],
    also: second && ((step) => step < delay || (delay && state.activity.starts.includes(step)) ? NaN : second.at(step - delay, column)),
  }));
}

// The model predicts the observation of the next step.
const seeingLines = () => linesOf("observations", state.activity.observationNames, "predictions", 1);

function doingLines() {
  const { actions, outputs } = state.activity;
  const motor = WIRING.layers.at(-1);
  return [
    ...(actions ? linesOf("actions", state.activity.actionNames, state.activity.executed_actions && "executed_actions") : []),
    ...(outputs ? linesOf("outputs", WIRING.neuronNames.slice(motor.start, motor.stop)) : []),
    ...linesOf("rewards", ["reward"]),
    ...linesOf("values", ["value"]),
  ];
}
