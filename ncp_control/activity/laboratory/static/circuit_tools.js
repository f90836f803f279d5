// What can be done to a neuron or a synapse, and how the wiring shows that it was done.

const linkOf = ({ kind, index }) => ({ kind, index });
const nameOfLink = ({ kind, source, target }) => `${nameOf(source)} ${kind === "gaps" ? "and" : "→"} ${nameOf(target)}`;

// What holds for the circuit that is shown.
const tuning = () => bench.experiment.settingsAt(bench.next)[state.side];

// A slider with its value and a label around both.
function labelledSlider(label, attributes, text, act) {
  const { slider, output, set } = sliderTool(attributes, text, act);
  return { label: element("label", {}, label, slider, output), set };
}

class CircuitTools {
  constructor() {
    this.fillers = new Map(); // by neuron
    this.fillPicked = null;
    bench.onChange.push(() => this.refresh());
  }

  refresh() {
    if (!bench.experiment) return;
    for (const neuron of this.fillers.keys()) if (!state.chosen.includes(neuron)) this.fillers.delete(neuron);
    const now = tuning();
    for (const fill of this.fillers.values()) fill(now);
    if (state.picked && this.fillPicked) this.fillPicked(now);
  }

  // The tools of a chosen neuron, for its card.
  neuron(neuron) {
    const { can } = bench.run.controller.cell, name = nameOf(neuron), found = element("div", { class: "tools", role: "group", "aria-label": `change ${name}` });
    const fills = [];
    if (can.hold) found.append(element("span", { class: "note" }, can.hold));
    else {
      const { bounds, neurons } = state.activity;
      const end = (given, seen) => given[neuron] === null ? seen[neuron] : given[neuron];
      const low = Math.min(0, end(bounds.low, neurons.low)), high = Math.max(0, end(bounds.high, neurons.high));
      const silence = button("Silence", () => bench.change("silence", neuron)), free = button("Let go", () => bench.change("free", neuron));
      const hold = labelledSlider("hold at", { min: `${low}`, max: `${high > low ? high : low + 1}`, step: "any", "aria-label": `value at which ${name} is held` }, figure,
        (value) => bench.change("hold", neuron, Number(value.toPrecision(3))));
      found.append(silence, hold.label, free);
      fills.push(({ held }) => {
        const value = held.get(neuron);
        silence.setAttribute("aria-pressed", value === 0);
        free.disabled = value === undefined;
        hold.set(value ?? neurons.at(state.step, neuron));
      });
    }
    if (!can.constants) {
      const slower = labelledSlider("time constant", { min: "-4", max: "4", step: "0.5", "aria-label": `how many times slower ${name} is, as a power of 2` },
        (value) => times(2 ** value), (value) => bench.change("tau", neuron, Number((2 ** value).toPrecision(3))));
      found.append(slower.label);
      fills.push(({ constants }) => slower.set(Math.log2(constants[neuron])));
    }
    const choose = this.synapseMenu(neuron);
    if (choose) found.append(choose);
    const fill = (now) => fills.forEach((one) => one(now));
    this.fillers.set(neuron, fill);
    fill(tuning());
    return [found];
  }

  // A menu of a neuron's synapses, for the keyboard.
  synapseMenu(neuron) {
    const menu = element("select", { "aria-label": `choose a synapse of ${nameOf(neuron)}` }, new Option("Change a synapse …", ""));
    const every = [...SYNAPSES, ...GAPS];
    for (const [title, end] of [["into it", "target"], ["out of it", "source"]]) {
      const found = every.filter((edge) => edge[end] === neuron);
      if (!found.length) continue;
      menu.append(element("optgroup", { label: title }, ...found.map((edge) => new Option(nameOfLink(edge), every.indexOf(edge)))));
    }
    menu.addEventListener("change", () => { if (menu.value !== "") this.pick(every[+menu.value]); menu.value = ""; });
    return menu.children.length > 1 ? menu : null;
  }

  // Shows the tools of a synapse, or none.
  pick(edge) {
    state.picked = edge;
    const box = byId("picked");
    box.hidden = !edge;
    this.fillPicked = this.drawPicked = null;
    if (edge) {
      const { can } = bench.run.controller.cell, name = nameOfLink(edge), link = linkOf(edge);
      const now = element("span"), close = button("×", () => this.pick(null), { class: "small", "aria-label": `leave ${name}` });
      const tools = element("div", { class: "tools", role: "group", "aria-label": `change ${name}` });
      box.replaceChildren(element("h3", {}, name, now, close), tools);
      if (can.cut) tools.append(element("span", { class: "note" }, can.cut));
      else {
        const cut = button("Cut", () => bench.change("cut", link)), flip = button("Flip", () => bench.change("flip", link));
        const mend = button("Mend", () => bench.change("mend", link));
        const scale = labelledSlider("strength", { min: "-4", max: "4", step: "0.25", "aria-label": `factor of ${name}` }, times,
          (value) => bench.change(value === 0 ? "cut" : value === 1 ? "mend" : "scale", link, value === 0 || value === 1 ? null : value));
        tools.append(cut, flip, scale.label, mend);
        this.fillPicked = (settings) => {
          const factor = settings[edge.kind][edge.index];
          cut.setAttribute("aria-pressed", factor === 0);
          flip.setAttribute("aria-pressed", factor < 0);
          mend.disabled = factor === 1;
          scale.set(factor);
        };
        this.fillPicked(tuning());
      }
      this.drawPicked = () => { now.textContent = [effectOf(edge), `current ${figure(currentOf(edge))}`].filter(Boolean).join(", "); };
      this.drawPicked();
    }
    drawAll();
  }

  // Marks what was changed on the wiring.
  mark(context, view) {
    if (!bench.experiment) return;
    const settings = tuning(), { radius, places } = view;
    if (this.drawPicked) this.drawPicked();
    for (const edge of [...SYNAPSES, ...GAPS]) {
      const factor = settings[edge.kind][edge.index], isPicked = state.picked === edge;
      if (factor === 1 && !isPicked) continue;
      context.lineWidth = isPicked ? 3 : 2;
      context.strokeStyle = factor === 0 ? theme.muted : isPicked ? theme.text : theme.accent;
      context.setLineDash(factor === 0 ? [2, 4] : factor < 0 ? [8, 3] : []);
      context.stroke(edge.path);
    }
    context.setLineDash([]);
    const ring = (neuron, dash) => {
      const { x, y } = places.get(neuron);
      context.setLineDash(dash);
      context.beginPath();
      context.arc(x, y, radius + 3, 0, 2 * Math.PI);
      context.stroke();
    };
    context.lineWidth = 2.5;
    context.strokeStyle = theme.text;
    for (const neuron of settings.held.keys()) ring(neuron, []);
    settings.constants.forEach((factor, neuron) => { if (factor !== 1) ring(neuron, [3, 3]); });
    context.setLineDash([]);
    if (WIRING.inputs !== bench.run.world.observationNames.length) return;
    for (const k of settings.hidden) {
      const { x, y } = places.get(-1 - k);
      context.beginPath();
      for (const side of [-1, 1]) {
        context.moveTo(x - radius, y - side * radius);
        context.lineTo(x + radius, y + side * radius);
      }
      context.stroke();
    }
  }
}
