// What a model predicted open loop: from which step on, how wrong it became, and its body over the real one.

// The row of the chosen continuation's arrays that belongs to a step, or -1.
function rowAhead(step) {
  const { starts, ahead } = state.activity.continued, k = step - starts[state.run];
  return k < 0 || k >= ahead ? -1 : state.run * ahead + k;
}

function valueAhead(series, step, column = 0) {
  const row = rowAhead(step);
  return row < 0 ? NaN : series.at(row, column);
}

// The traces of the observations, with the predictions from the chosen step on in the model's colour.
function seeingAheadLines() {
  const lines = seeingLines(), { continued } = state.activity;
  return !continued ? lines : lines.map((line, column) => ({
    ...line,
    also: line.also && ((step) => rowAhead(step) < 0 ? line.also(step) : NaN),
    model: (step) => valueAhead(continued.values, step, column),
  }));
}

// Draws the outline of the model's body over the real one, where the model predicts it to be.
function drawModelBody(view, context) {
  const { body, continued } = state.activity;
  const row = continued?.body ? rowAhead(view.step) : -1;
  if (row < 0 || !Number.isFinite(continued.body.middle.at(row, 0))) return;
  const { ends, middle } = continued.body, { scale } = view.scale;
  const x = (k) => view.scale.x(ends.at(row, k) + middle.at(row, 0) - body.along.at(view.step, 0));
  const y = (k) => view.scale.y(ends.at(row, k) + middle.at(row, 1));
  const outline = offscreen(view.surface, view.height, (paper) => {
    paper.lineCap = "round";
    paper.strokeStyle = theme.model;
    // What is inside is cut out again, so that no line is left where two limbs meet.
    for (const [mode, more] of [["source-over", 4], ["destination-out", 0]]) {
      paper.globalCompositeOperation = mode;
      body.radii.forEach((radius, k) => {
        paper.lineWidth = Math.max(2, 2 * radius * scale) + more;
        paper.beginPath();
        paper.moveTo(x(4 * k), y(4 * k + 1));
        paper.lineTo(x(4 * k + 2) + 0.01, y(4 * k + 3));
        paper.stroke();
      });
    }
  });
  const { width } = view.surface, apart = continued.body.middle.at(row, 0) - body.along.at(view.step, 0);
  context.drawImage(outline, 0, 0, width, view.height);
  if (view.scale.x(Math.abs(apart)) < width + body.side * scale) return;
  // The camera stays with the real body, and the other one may have run out of the picture.
  font(context, 12);
  context.fillStyle = theme.model;
  context.textAlign = apart > 0 ? "right" : "left";
  context.textBaseline = "middle";
  const words = `${figure(Math.abs(apart))} m`;
  context.fillText(apart > 0 ? `${words} →` : `← ${words}`, apart > 0 ? width - 4 : 4, view.height / 2);
}

// The error over the steps of the chosen continuation, on a logarithmic scale, and in words.
class ErrorView {
  constructor(go) {
    this.surface = new Surface(byId("errors"));
    scrubs(this.surface.canvas, (x) => this.stepAt(x), go);
  }

  resize() {
    this.surface.measure();
    this.left = 44;
    this.across = this.surface.width - this.left - 10;
    this.height = 104;
    const { errors } = state.activity.continued || {};
    [this.low, this.high] = [-2, 1];
    for (let row = 0; errors && row < errors.steps; row++) {
      const error = Math.log10(errors.at(row, 0));
      if (Number.isFinite(error)) [this.low, this.high] = [Math.min(this.low, error), Math.max(this.high, error)];
    }
    [this.low, this.high] = [Math.max(-3, Math.floor(this.low)), Math.min(3, Math.ceil(this.high))];
  }

  // The steps that are shown: those of the continuation, and a few before it.
  get view() {
    const { starts, ahead } = state.activity.continued, start = starts[state.run];
    return { from: Math.max(0, start - 10), to: Math.min(state.activity.steps, start + ahead) - 1 };
  }

  stepAt(x) {
    const { from, to } = this.view;
    return Math.max(from, Math.min(to, Math.round(from + (x - this.left) / this.across * (to - from))));
  }

  draw() {
    const { continued } = state.activity;
    byId("ahead-panel").hidden = !continued;
    if (!continued) return;
    if (!this.surface.width) this.resize();
    const context = this.surface.begin(this.height), { view, left, across, low, high } = this;
    const top = 8, bottom = this.height - 20;
    const x = (step) => left + (step - view.from) / (view.to - view.from || 1) * across;
    const y = (log) => bottom - (log - low) / (high - low) * (bottom - top);
    font(context, 10.5);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let decade = low; decade <= high; decade += high - low > 4 ? 2 : 1) {
      context.fillStyle = theme.line;
      context.fillRect(left, Math.round(y(decade)), across, 1);
      context.fillStyle = theme.muted;
      context.fillText(mark(10 ** decade), left - 6, y(decade));
    }
    context.strokeStyle = theme.muted;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(left, y(Math.log10(continued.level)));
    context.lineTo(left + across, y(Math.log10(continued.level)));
    context.stroke();
    context.setLineDash([]);
    const start = continued.starts[state.run], parted = continued.parted[state.run];
    rule(context, x(start), top, bottom, theme.muted);
    context.lineJoin = "round";
    context.strokeStyle = theme.model;
    context.lineWidth = 1.5;
    const log = (step) => Math.max(low, Math.min(high, Math.log10(valueAhead(continued.errors, step))));
    trace(context, log, view, { left, width: across, top, height: bottom - top }, low, high);
    if (parted !== null) {
      context.fillStyle = theme.model;
      context.beginPath();
      context.arc(x(parted), y(log(parted)), 4, 0, 2 * Math.PI);
      context.fill();
    }
    ticks(context, view.from, view.to, left, across, bottom + 10);
    if (state.step >= view.from && state.step <= view.to) rule(context, x(state.step), top, bottom, theme.text);
    this.describe();
  }

  describe() {
    const { body, continued } = state.activity, row = rowAhead(state.step), error = valueAhead(continued.errors, state.step);
    const apart = continued.body && row >= 0 ? continued.body.middle.at(row, 0) - body.along.at(state.step, 0) : NaN;
    const where = Math.abs(apart) >= 0.005 ? `, the model's body ${figure(Math.abs(apart))} m ${apart > 0 ? "ahead" : "behind"}` : "";
    byId("error-now").textContent = Number.isFinite(error) ? `now ${figure(error)}${where}`
      : state.step < continued.starts[state.run] ? "the model reads observations here" : "no prediction here";
  }
}

// Shows from which step on the chosen continuation runs, and where it parts from what happened.
function showRun() {
  const { body, continued, dt, steps } = state.activity;
  byId("body-legend").hidden = !continued?.body;
  byId("starts").querySelector(".parted")?.remove();
  if (!continued) return;
  state.run = Math.min(state.run, continued.starts.length - 1);
  const start = continued.starts[state.run], parted = continued.parted[state.run];
  const what = continued.body ? "bodies" : "observations", end = Math.min(start + continued.ahead, steps);
  byId("run").max = continued.starts.length - 1;
  byId("run").value = state.run;
  byId("run").hidden = continued.starts.length < 2;
  byId("run-label").textContent = `step ${start}`;
  byId("run").setAttribute("aria-valuetext", `step ${start}`);
  const count = parted - start + 1, time = dt ? ` (${(count * dt).toFixed(2)} s)` : "";
  byId("parting").textContent = parted === null ? `The ${what} stay together until step ${end - 1}.`
    : `The ${what} part at step ${parted}, after ${count} open-loop step${count === 1 ? "" : "s"}${time}: `
      + `the first error above ${continued.level} (dashed).`;
  byId("overall").textContent = continued.overall;
  byId("circuit-looks").textContent = continued.ofCircuit ? "" : "The circuit is shown while it reads every observation.";
  byId("seeing-note").textContent = `dashed: predicted one step earlier · orange: open loop from step ${start} on`;
  if (parted !== null) byId("starts").append(element("i", { class: "parted", style: `left: ${parted / Math.max(1, steps - 1) * 100}%` }));
}

function setRun(number) {
  const { continued } = state.activity;
  if (!continued || !(number >= 0)) return;
  state.run = Math.min(number, continued.starts.length - 1);
  showRun();
  redoPapers();
  setStep(rowAhead(state.step) < 0 ? continued.starts[state.run] : state.step);
  drawAll();
}
