// The chosen neurons: their traces in one picture, and for each neuron what drives it now and what it drives.

const MOST_ROWS = 12;
const LINES = [["text", []], ["#009e73", []], ["#cc79a7", []], ["#56b4e9", []], ["text", [5, 3]], ["#009e73", [5, 3]], ["#cc79a7", [5, 3]]];
const lineOf = (order) => {
  const [colour, dash] = LINES[order % LINES.length];
  return { colour: theme[colour] || colour, dash };
};

class ChosenView {
  // go(step): moves to a step. tools(neuron): returns elements for a chosen neuron's card, if it is given.
  constructor(go, tools = null) {
    this.tools = tools;
    this.surface = new Surface(byId("chosen-traces"));
    scrubs(this.surface.canvas, (x) => this.stepAt(x), go);
    const choose = byId("choose");
    choose.addEventListener("change", () => {
      if (choose.value !== "" && !state.chosen.includes(+choose.value)) toggle(+choose.value);
      choose.value = "";
    });
    this.rewire();
  }

  // Fills the menu with the neurons of the circuit that is shown now.
  rewire() {
    const choose = byId("choose");
    choose.replaceChildren(new Option("Add a neuron …", ""));
    for (const layer of WIRING.layers) {
      const group = element("optgroup", { label: layer.name });
      for (let n = layer.start; n < layer.stop; n++) group.append(new Option(nameOf(n), n));
      choose.append(group);
    }
    this.shown = "";
  }

  resize() {
    this.surface.measure();
    this.left = 58;
    this.across = this.surface.width - this.left - 2;
    this.height = 176;
  }

  stepAt(x) {
    const { from, to } = shown();
    return Math.max(0, Math.min(state.activity.steps - 1, Math.round(from + (x - this.left) / this.across * (to - from))));
  }

  // The cards are made when the choice changes. Later steps only fill in their numbers.
  cards() {
    byId("chosen-body").hidden = !state.chosen.length;
    byId("chosen-hint").hidden = state.chosen.length > 0;
    // A canvas that was hidden has no width yet.
    if (!this.surface.width) this.resize();
    this.filled = state.chosen.map((neuron, order) => {
      const name = nameOf(neuron), now = element("span"), swatch = element("i");
      const close = button("×", () => toggle(neuron), { class: "small", "aria-label": `leave ${name}` });
      swatch.style.background = lineOf(order).colour;
      const every = [...SYNAPSES, ...GAPS];
      const into = list("Driven now by", every.filter((s) => s.target === neuron || (s.kind === "gaps" && s.source === neuron)),
        (s) => s.target === neuron ? s.source : s.target, (s) => s.target === neuron ? 1 : -1);
      const out = list("Drives now", SYNAPSES.filter((s) => s.source === neuron), (s) => s.target, () => 1);
      const card = element("div", { class: "neuron", "data-neuron": name }, element("h3", {}, swatch, name, now, close),
        ...(this.tools ? this.tools(neuron) : []), element("div", { class: "lists" }, into.box, out.box));
      return { neuron, card, now, fill: () => { into.fill(); out.fill(); } };
    });
    byId("chosen-list").replaceChildren(...this.filled.map(({ card }) => card));
  }

  draw() {
    const key = `${state.number} ${state.chosen} ${document.documentElement.dataset.theme}`;
    if (key !== this.shown) {
      this.shown = key;
      this.cards();
    }
    if (!state.chosen.length) return;
    const { neurons, constants, constantsKnown } = state.activity;
    for (const { neuron, now, fill } of this.filled) {
      now.textContent = `state ${figure(neurons.at(state.step, neuron))}, ${timeConstantText(neuron)}`;
      fill();
    }
    const context = this.surface.begin(this.height);
    this.plot(context, "state", neurons, 0, 84);
    const known = state.chosen.filter((neuron) => constantsKnown[neuron]);
    if (known.length) this.plot(context, "time\nconstant", constants, 92, 66, known);
    const view = shown();
    ticks(context, view.from, view.to, this.left, this.across, this.height - 8);
  }

  // `neurons`: those whose least and greatest values are the ends of the scale.
  plot(context, name, series, top, height, neurons = state.chosen) {
    const view = shown(), box = { left: this.left, width: this.across, top: top + 3, height: height - 6 };
    let low = Math.min(...neurons.map((n) => series.low[n])), high = Math.max(...neurons.map((n) => series.high[n]));
    if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
    context.fillStyle = theme.ground;
    context.globalAlpha = 0.55;
    context.fillRect(this.left, top, this.across, height);
    context.globalAlpha = 1;
    font(context, 10.5);
    context.fillStyle = theme.muted;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const number = (value) => figure(series.log ? 10 ** value : value);
    context.fillText(number(high), this.left - 5, top + 7);
    context.fillText(number(low), this.left - 5, top + height - 7);
    name.split("\n").forEach((word, k, words) => context.fillText(word, this.left - 5, top + height / 2 + (k - (words.length - 1) / 2) * 12));
    const x = (step) => this.left + (step - view.from) / (view.to - view.from || 1) * this.across;
    for (const start of state.activity.starts) if (start > view.from && start <= view.to) rule(context, x(start), top, top + height, theme.muted, [3, 3]);
    context.lineJoin = "round";
    state.chosen.forEach((neuron, order) => {
      const { colour, dash } = lineOf(order);
      context.strokeStyle = colour;
      context.lineWidth = 1.5;
      context.setLineDash(dash);
      trace(context, (step) => series.raw(step, neuron), view, box, low, high);
      context.setLineDash([]);
    });
    rule(context, x(state.step), top, top + height, theme.text);
  }
}

// A list of synapses with their currents, the strongest first. Its rows are filled anew at every step.
function list(title, synapses, other, sign) {
  const known = state.activity.currentsKnown;
  const heading = element("h4", {}, synapses.length ? `${title} (${synapses.length})` : `${title}: nothing`);
  const cells = synapses.slice(0, MOST_ROWS).map(() => {
    const name = element("span"), bar = element("i"), value = element("b");
    return { row: element("li", {}, name, bar, value), name, bar, value };
  });
  const rows = element("ol", {}, ...cells.map(({ row }) => row)), left = synapses.length - MOST_ROWS;
  if (left > 0) rows.append(element("li", { class: "more" }, `and ${left} ${known ? "weaker" : "more"}`));
  const fill = () => {
    const found = synapses.map((synapse) => ({ synapse, current: sign(synapse) * currentOf(synapse) }));
    found.sort((a, b) => (Math.abs(b.current) || 0) - (Math.abs(a.current) || 0));
    cells.forEach(({ row, name, bar, value }, k) => {
      const { synapse, current } = found[k], from = nameOf(other(synapse));
      name.textContent = from;
      row.title = synapse.kind === "gaps" ? `${from}: gap junction` : from;
      const isKnown = known || Number.isFinite(current);
      row.classList.toggle("unknown", !isKnown);
      bar.style.width = `${Math.max(1, 64 * strengthOf(synapse))}px`;
      bar.style.background = colourOfEffect(effectOf(synapse));
      value.textContent = isKnown ? figure(current) : "not known";
    });
  };
  return { box: element("div", {}, heading, rows), fill };
}
