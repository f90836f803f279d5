// The world's sliders, pushes and senses.

const percent = (value) => `${+(100 * value).toFixed(1)} %`;
const times = (value) => `× ${+value.toPrecision(3)}`;
// The usual share of random actions is that of the training.
const SETTINGS = {
  random: { name: "Random actions", low: 0, high: 1, usual: 0, by: 0.01, text: percent },
  noise: { name: "Noise on what it sees", low: 0, high: 1, usual: 0, by: 0.01, text: (value) => `${+value.toPrecision(3)}` },
  dropout: { name: "Lost observations", low: 0, high: 1, usual: 0, by: 0.01, text: percent },
  delay: { name: "Delay of actions", low: 0, high: 10, usual: 0, by: 1, text: (value) => value === 1 ? "1 step" : `${value} steps` },
  friction: { name: "Friction", low: 0, high: 3, usual: 1, by: 0.05, text: times },
  gravity: { name: "Gravity", low: 0, high: 3, usual: 1, by: 0.05, text: times },
  mass: { name: "Mass of the torso", low: 0.2, high: 5, usual: 1, by: 0.05, text: times },
};
const PUSH_STRENGTHS = { low: 0.1, high: 3, by: 0.1, usual: 1 }; // in weights of the body

// A slider and its value in words. `set` also shows a value between two places of the slider, as a line may have set it.
function sliderTool(attributes, text, act) {
  const slider = element("input", { type: "range", ...attributes }), output = element("output", slider.id ? { for: slider.id } : {});
  const show = (value) => { output.textContent = text(value); };
  slider.addEventListener("input", () => show(+slider.value));
  slider.addEventListener("change", () => act(+slider.value));
  return { slider, output, set(value) { slider.value = value; show(value); } };
}

class WorldPanel {
  constructor() {
    this.rows = Object.entries(SETTINGS).map(([name, setting]) => this.row(name, setting));
    byId("settings").replaceChildren(...this.rows.map(({ row }) => row));
    this.fillPush();
    bench.onChange.push(() => this.refresh());
  }

  row(name, { name: title, low, high, by, text }) {
    const { slider, output, set } = sliderTool({ min: `${low}`, max: `${high}`, step: `${by}`, id: `setting-${name}` }, text,
      (value) => bench.change(name, null, value));
    const label = element("label", { for: slider.id }, title);
    const back = button("↺", () => bench.change(name, null, this.usual(name)), { class: "small", title: "as it was", "aria-label": `${title} as it was` });
    return { name, row: element("div", { class: "setting" }, label, slider, output, back), back, set };
  }

  usual(name) { return bench.vocabulary.settings[name].usual; }

  fillPush() {
    const which = element("select", { id: "push-body", "aria-label": "which part is pushed" });
    const { low, high, by, usual } = PUSH_STRENGTHS;
    const { slider: strength, output, set } = sliderTool({ min: `${low}`, max: `${high}`, step: `${by}`, id: "push-strength", "aria-label": "how hard, in weights of the body" },
      (value) => `${value.toFixed(1)} × weight`, () => {});
    set(usual);
    const arrows = [["←", -1, 0, "backwards"], ["→", 1, 0, "forwards"], ["↑", 0, 1, "up"], ["↓", 0, -1, "down"]];
    byId("push").replaceChildren("Push", which, ...arrows.map(([arrow, x, y, where]) =>
      button(arrow, () => push(+which.value, x * strength.value, y * strength.value), { "aria-label": `push ${where}`, title: where })), strength, output);
  }

  // Fills in what depends on the circuits.
  rewire() {
    byId("push-body").replaceChildren(...bench.run.exhibit.bodyNames.map((name, k) => new Option(name, k)));
    const names = bench.run.exhibit.observationNames;
    this.senses = names.map((_, k) => {
      const box = element("input", { type: "checkbox" });
      box.addEventListener("change", () => bench.change(box.checked ? "show" : "hide", k));
      return box;
    });
    byId("senses").replaceChildren(...names.map((name, k) => element("label", {}, this.senses[k], name)));
    this.refresh();
  }

  refresh() {
    const { world, [state.side]: circuit } = bench.experiment.settingsAt(bench.next);
    for (const { name, row, back, set } of this.rows) {
      set(world[name]);
      const changed = world[name] !== this.usual(name);
      row.classList.toggle("changed", changed);
      back.style.visibility = changed ? "visible" : "hidden";
    }
    this.senses.forEach((box, k) => { box.checked = !circuit.hidden.includes(k); });
    byId("senses-title").textContent = circuit.hidden.length ? `Take away senses (${circuit.hidden.length} gone)` : "Take away senses";
  }
}

// Pushes a part of the body during the next steps; across and up in weights of the body.
function push(body, across, up) {
  const { weight, above } = bench.runs.a.exhibit.body;
  const newtons = (value) => Number((value * weight).toPrecision(3)) || 0;
  bench.change("push", body, above ? [newtons(across), newtons(up), 0] : [newtons(across), newtons(up)]);
}

// Lets a pointer push the body: the arrow from where it is held to where it is let go is the force.
class PushByHand {
  constructor(view) {
    this.view = view;
    this.from = null;
    const { canvas } = view.surface;
    canvas.addEventListener("pointerdown", (event) => {
      const held = this.pieceAt(event);
      if (held === null || event.button !== 0) return;
      [this.from, this.to, this.body] = [this.placeOf(event), this.placeOf(event), held];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.from) return;
      this.to = this.placeOf(event);
      if (!state.playing) view.draw();
    });
    canvas.addEventListener("pointerup", () => {
      if (!this.from) return;
      const [across, up] = this.force();
      this.from = null;
      if (Math.hypot(across, up) > 0.05) push(this.body, across, up);
      view.draw();
    });
    canvas.addEventListener("pointercancel", () => { this.from = null; });
    view.over = (context) => this.draw(context);
  }

  placeOf(event) {
    const box = this.view.surface.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  // In weights: an arrow of 80 pixels is one.
  force() { return [(this.to.x - this.from.x) / 80, (this.from.y - this.to.y) / 80]; }

  // The number of the body whose piece is under the pointer.
  pieceAt(event) {
    const { view } = this, activity = view.activity(), place = this.placeOf(event);
    if (!activity?.body || !view.scale) return null;
    const { body } = activity, { scale, x, y } = view.scale;
    let best = null, least = event.pointerType === "touch" ? 40 : 24;
    body.radii.forEach((radius, k) => {
      if (!body.moving[k] || body.owners[k] < 0) return;
      const [ax, ay, bx, by] = [0, 1, 2, 3].map((c) => (c % 2 ? y : x)(body.ends.at(view.step, 4 * k + c)));
      const along = Math.max(0, Math.min(1, ((place.x - ax) * (bx - ax) + (place.y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1)));
      const distance = Math.hypot(place.x - ax - along * (bx - ax), place.y - ay - along * (by - ay)) - radius * scale;
      if (distance < least) [best, least] = [body.owners[k], distance];
    });
    return best;
  }

  draw(context) {
    if (!this.from) return;
    const { from, to } = this, angle = Math.atan2(to.y - from.y, to.x - from.x);
    context.strokeStyle = theme.lowers;
    context.lineWidth = 3;
    context.beginPath();
    context.moveTo(from.x, from.y);
    context.lineTo(to.x, to.y);
    for (const turn of [2.6, -2.6]) {
      context.moveTo(to.x, to.y);
      context.lineTo(to.x + 10 * Math.cos(angle + turn), to.y + 10 * Math.sin(angle + turn));
    }
    context.stroke();
  }
}
