// The body as capsules, over the ground or seen from above. The camera moves along with it.

class BodyView {
  // every: the bodies of all rollouts, which have the same scale, so that they can be compared.
  // name: of the canvas; its section and its note are `name-panel` and `name-note`.
  // activity(): the rollout that is shown.
  constructor(every, name = "body", activity = () => state.activity, height = 160) {
    this.surface = new Surface(byId(name));
    this.panel = byId(`${name}-panel`);
    this.note = byId(`${name}-note`);
    this.activity = activity;
    this.height = height;
    this.over = null; // draws over the body, if it is set
    this.side = Math.max(...every.map(({ side }) => side));
    this.up = Math.max(...every.map(({ up }) => up));
    this.down = Math.min(...every.map(({ down }) => down));
  }

  resize() {
    this.surface.measure();
  }

  draw() {
    const { body, steps } = this.activity() || {};
    this.panel.hidden = !body;
    if (!body) return;
    // A rollout beside the one that is shown may have ended earlier, or still go on.
    this.step = state.step === state.activity.steps - 1 ? steps - 1 : Math.min(state.step, steps - 1);
    const context = this.surface.begin(this.height), { width } = this.surface;
    const scale = Math.min((this.height - 34) / (this.up - this.down), width * 0.8 / (2 * this.side));
    const foot = this.height - 24, middle = body.above ? (foot + 10 + (this.up + this.down) * scale) / 2 : foot + this.down * scale;
    const x = (metres) => width / 2 + metres * scale, y = (metres) => middle - metres * scale;
    const base = body.above ? foot : body.ground === null ? y(this.down) : y(body.ground);
    this.scale = { scale, x, y };
    this.drawScale(context, scale, base, y);
    const at = (k) => body.ends.at(this.step, k);
    const order = body.radii.map((_, k) => k);
    if (body.depth) order.sort((a, b) => body.depth.at(this.step, b) - body.depth.at(this.step, a));
    context.save();
    context.beginPath();
    context.rect(0, 0, width, body.above ? base : this.height);
    context.clip();
    context.lineCap = "round";
    for (const k of order) {
      const capsule = [at(4 * k), at(4 * k + 1), at(4 * k + 2), at(4 * k + 3)];
      if (!capsule.every(Number.isFinite)) continue;
      for (const [colour, more] of [[theme.limbEdge, 2.5], [body.other[k] ? theme.limbOther : theme.limb, 0]]) {
        context.strokeStyle = colour;
        context.lineWidth = Math.max(2, 2 * body.radii[k] * scale) + more;
        context.beginPath();
        context.moveTo(x(capsule[0]), y(capsule[1]));
        context.lineTo(x(capsule[2]) + 0.01, y(capsule[3]));
        context.stroke();
      }
    }
    context.restore();
    if (this.over) this.over(context);
    this.describe();
  }

  // The ground with a tick at round numbers of metres, or a grid below a body that is seen from above.
  drawScale(context, scale, base, y) {
    const { body } = this.activity(), { width } = this.surface;
    const reach = width / 2 / scale, apart = 10 ** Math.ceil(Math.log10(34 / scale));
    const along = body.along.at(this.step, 0);
    const marks = (centre, far) => {
      const found = [];
      for (let mark = Math.ceil((centre - far) / apart); mark * apart <= centre + far; mark++) found.push(mark * apart);
      return found;
    };
    if (body.above) {
      const aside = body.along.at(this.step, 1);
      context.fillStyle = theme.ground;
      for (const mark of marks(along, reach)) context.fillRect(width / 2 + (mark - along) * scale - 0.5, 0, 1, base);
      for (const mark of marks(aside, this.height / scale)) {
        if (y(mark - aside) < base) context.fillRect(0, y(mark - aside) - 0.5, width, 1);
      }
    } else if (body.ground !== null) {
      context.fillStyle = theme.ground;
      context.fillRect(0, base, width, this.height - base);
    }
    context.fillStyle = theme.muted;
    context.fillRect(0, base - 0.5, width, 1);
    font(context, 10.5);
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const mark of marks(along, reach + 1)) {
      const place = width / 2 + (mark - along) * scale;
      context.fillRect(place - 0.5, base, 1, 5);
      context.fillText(`${+mark.toFixed(6)}`.replace("-", "−"), place, base + 13);
    }
  }

  // Where the body is and how fast it moves, in words.
  describe() {
    const { body, dt, starts, steps } = this.activity();
    const before = Math.max(0, this.step - 1), after = Math.min(steps - 1, this.step + 1);
    const broken = starts.some((start) => start > before && start <= after);
    const axes = body.above ? [0, 1] : [0];
    // A body that is shown between two steps has moved for longer than the steps say.
    const speeds = axes.map((axis) => (body.stepped.at(after, axis) - body.stepped.at(before, axis)) / (dt * (after - before)));
    const speed = dt && !broken && after > before ? (body.above ? Math.hypot(...speeds) : speeds[0]) : NaN;
    const places = axes.map((axis) => `${"xy"[axis]} ${body.along.at(this.step, axis).toFixed(2)} m`).join(", ");
    const words = places + (Number.isFinite(speed) ? ` · ${speed.toFixed(1)} m/s` : "");
    this.note.textContent = words.replace(/-(?=0\.0+ )/g, "").replaceAll("-", "−");
  }
}
