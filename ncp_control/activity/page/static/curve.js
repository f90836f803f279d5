// The learning curve of a training: mean and standard deviation of the returns in its evaluations, and the moments of
// the recorded episodes, of which the one that is shown is marked.

class CurveView {
  // go(number): shows a recorded episode.
  constructor(go) {
    this.surface = new Surface(byId("curve"));
    this.moments = PAGE.activities.map(({ trained }) => trained);
    const { steps, mean, std } = PAGE.curve;
    this.most = Math.max(1, ...steps, ...this.moments.filter(Number.isFinite));
    const ends = mean.flatMap((value, k) => value === null ? [] : [value - (std[k] || 0), value + (std[k] || 0)]);
    this.low = Math.min(...ends);
    this.high = Math.max(...ends, this.low + 1e-9);
    this.surface.canvas.addEventListener("click", (event) => {
      const x = event.clientX - this.surface.canvas.getBoundingClientRect().left;
      const far = this.moments.map((moment) => Number.isFinite(moment) ? Math.abs(this.x(moment) - x) : Infinity);
      go(far.indexOf(Math.min(...far)));
    });
  }

  resize() {
    this.surface.measure();
    [this.left, this.height] = [52, 104];
    this.across = this.surface.width - this.left - 10;
  }

  x(steps) { return this.left + steps / this.most * this.across; }

  draw() {
    const { steps, mean, std } = PAGE.curve, context = this.surface.begin(this.height), { left, across } = this;
    const top = 8, bottom = this.height - 24;
    const y = (value) => bottom - (value - this.low) / (this.high - this.low) * (bottom - top);
    font(context, 10.5);
    context.fillStyle = theme.muted;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(mark(this.high), left - 6, top + 4);
    context.fillText(mark(this.low), left - 6, bottom - 4);
    context.fillText(`${this.most.toLocaleString("en")} steps`, left + across, bottom + 15);
    context.textAlign = "left";
    context.fillText("0", left, bottom + 15);
    context.fillStyle = theme.line;
    context.fillRect(left, bottom, across, 1);
    const known = steps.map((_, k) => k).filter((k) => mean[k] !== null);
    context.fillStyle = theme.window;
    context.beginPath();
    for (const k of known) context.lineTo(this.x(steps[k]), y(mean[k] + (std[k] || 0)));
    for (const k of [...known].reverse()) context.lineTo(this.x(steps[k]), y(mean[k] - (std[k] || 0)));
    context.fill();
    context.strokeStyle = context.fillStyle = theme.accent;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.beginPath();
    for (const k of known) context.lineTo(this.x(steps[k]), y(mean[k]));
    context.stroke();
    for (const k of known) {
      context.beginPath();
      context.arc(this.x(steps[k]), y(mean[k]), 2, 0, 2 * Math.PI);
      context.fill();
    }
    for (const moment of this.moments.filter(Number.isFinite)) rule(context, this.x(moment), bottom, bottom + 5, theme.muted);
    const shown = this.moments[state.number];
    if (Number.isFinite(shown)) rule(context, this.x(shown), top, bottom + 6, theme.text);
    const latest = known.filter((k) => steps[k] <= shown).at(-1);
    byId("curve-note").textContent = latest === undefined ? "not yet evaluated at this episode"
      : `at this episode ${figure(mean[latest])} ± ${figure(std[latest])}`;
  }
}
