// The body as capsules over the ground. The camera moves along with it.

class BodyView {
  constructor() {
    this.surface = new Surface(byId("body"));
    // All rollouts of the page have the same scale, so that they can be compared.
    const every = PAGE.activities.map(({ body }) => body).filter(Boolean);
    const thickest = Math.max(...every.flatMap(({ radii }) => radii));
    const ends = (side, axis) => every.flatMap(({ ends }) => ends[side].filter((_, k) => k % 2 === axis));
    this.side = Math.max(...ends("high", 0), ...ends("low", 0).map((x) => -x)) + thickest;
    this.up = Math.max(...ends("high", 1)) + thickest;
    this.down = Math.min(0, ...ends("low", 1)) - thickest;
  }

  resize() {
    this.surface.measure();
    this.height = 160;
  }

  draw() {
    const { body, dt } = state.activity;
    byId("body-panel").hidden = !body;
    if (!body) return;
    const context = this.surface.begin(this.height), { width } = this.surface;
    const scale = Math.min((this.height - 34) / (this.up - this.down), width * 0.8 / (2 * this.side));
    const ground = this.height - 24 + this.down * scale;
    const along = body.along.at(state.step, 0);
    const x = (metres) => width / 2 + metres * scale, y = (metres) => ground - metres * scale;
    context.fillStyle = theme.ground;
    context.fillRect(0, ground, width, this.height - ground);
    context.fillStyle = theme.muted;
    context.fillRect(0, ground - 0.5, width, 1);
    font(context, 10.5);
    context.textAlign = "center";
    context.textBaseline = "middle";
    const reach = width / 2 / scale + 1, apart = 10 ** Math.ceil(Math.log10(34 / scale));
    for (let mark = Math.ceil((along - reach) / apart); mark * apart <= along + reach; mark++) {
      const place = x(mark * apart - along);
      context.fillRect(place - 0.5, ground, 1, 5);
      context.fillText(`${+(mark * apart).toFixed(6)}`.replace("-", "−"), place, ground + 13);
    }
    const at = (k) => body.ends.at(state.step, k);
    context.lineCap = "round";
    body.radii.forEach((radius, k) => {
      const capsule = [at(4 * k), at(4 * k + 1), at(4 * k + 2), at(4 * k + 3)];
      if (!capsule.every(Number.isFinite)) return;
      for (const [colour, more] of [[theme.limbEdge, 2.5], [theme.limb, 0]]) {
        context.strokeStyle = colour;
        context.lineWidth = Math.max(2, 2 * radius * scale) + more;
        context.beginPath();
        context.moveTo(x(capsule[0]), y(capsule[1]));
        context.lineTo(x(capsule[2]) + 0.01, y(capsule[3]));
        context.stroke();
      }
    });
    const before = Math.max(0, state.step - 1), after = Math.min(state.activity.steps - 1, state.step + 1);
    const broken = state.activity.starts.some((start) => start > before && start <= after);
    const speed = dt && !broken && after > before ? (body.along.at(after, 0) - body.along.at(before, 0)) / (dt * (after - before)) : NaN;
    byId("body-note").textContent = `x ${along.toFixed(2).replace("-", "−")} m`
      + (Number.isFinite(speed) ? ` · ${speed.toFixed(1).replace("-", "−")} m/s` : "");
  }
}
