// Every neuron's time constant at the present step, as a dot on its recorded range, on a logarithmic scale.

class ConstantsView {
  constructor() {
    this.surface = new Surface(byId("constants"));
    const canvas = this.surface.canvas;
    canvas.addEventListener("click", (event) => {
      const neuron = this.neuronAt(event);
      if (neuron !== null) toggle(neuron);
    });
    canvas.addEventListener("pointermove", (event) => {
      const neuron = this.neuronAt(event);
      tip(neuron === null || event.pointerType === "touch" ? "" : `${describe(neuron)}\n${this.bounds(neuron)}`, event);
    });
    canvas.addEventListener("pointerleave", () => tip(""));
  }

  bounds(neuron) {
    const { low, high } = state.activity.constantBounds;
    return `bounds ${low[neuron] === null ? "none" : figure(low[neuron])} to ${high[neuron] === null ? "∞" : figure(high[neuron])}`;
  }

  resize() {
    this.surface.measure();
    this.height = 176;
    this.left = this.surface.width < 520 ? 46 : 74;
    this.rescale();
    const gaps = (WIRING.layers.length - 1) * 8;
    this.pitch = (this.surface.width - this.left - gaps) / NEURONS;
    this.places = new Float64Array(NEURONS);
    WIRING.layers.forEach((layer, k) => {
      for (let n = layer.start; n < layer.stop; n++) this.places[n] = this.left + 8 * k + (n + 0.5) * this.pitch;
    });
  }

  rescale() {
    const { constants, constantBounds } = state.activity;
    const known = WIRING.neuronNames.map((_, n) => n).filter((n) => constants.known(n));
    this.least = Math.min(...known.map((n) => constants.low[n]));
    this.most = Math.max(...known.map((n) => constants.high[n]));
    if (!known.length) [this.least, this.most] = [0, 1];
    // The scale includes the bounds, unless they are so far away that the recorded range would become tiny.
    for (const [side, pick, end] of [["low", Math.min, "least"], ["high", Math.max, "most"]]) {
      for (const bound of constantBounds[side]) {
        if (bound > 0 && Math.abs(Math.log10(bound) - this[end]) < 1.5) this[end] = pick(this[end], Math.log10(bound));
      }
    }
    if (this.most - this.least < 0.5) [this.least, this.most] = [this.least - 0.25, this.most + 0.25];
  }

  neuronAt(event) {
    const x = event.clientX - this.surface.canvas.getBoundingClientRect().left;
    const found = this.places.findIndex((place) => Math.abs(place - x) <= this.pitch / 2 + 0.5);
    return found < 0 ? null : found;
  }

  y(log) {
    const top = 8, bottom = this.height - 24;
    return bottom - (log - this.least) / (this.most - this.least) * (bottom - top);
  }

  draw() {
    const context = this.surface.begin(this.height), { constants, constantBounds, constantsKnown } = state.activity;
    if (state.activity.live) this.rescale();
    font(context, 10.5);
    context.textBaseline = "middle";
    if (!constantsKnown.some(Boolean)) {
      context.fillStyle = theme.muted;
      context.textAlign = "center";
      context.fillText("not known", this.surface.width / 2, this.height / 2);
      return;
    }
    const every = this.most - this.least > 8 ? 2 : 1;
    const decades = [];
    for (let d = Math.ceil(this.least); d <= this.most; d += every) decades.push(d);
    if (decades.length < 2) decades.splice(0, 1, ...[this.least, this.most]);
    for (const d of decades) {
      const y = Math.round(this.y(d)) + 0.5;
      context.fillStyle = theme.line;
      context.fillRect(this.left - 4, y, this.surface.width - this.left + 4, 1);
      context.fillStyle = theme.muted;
      context.textAlign = "right";
      context.fillText(mark(10 ** d), this.left - 10, y);
    }
    const thick = Math.max(1.5, Math.min(9, this.pitch * 0.7)), dot = Math.max(1.5, Math.min(4.5, this.pitch * 0.42));
    for (let n = 0; n < NEURONS; n++) {
      if (!constantsKnown[n]) continue;
      const x = this.places[n];
      context.fillStyle = state.chosen.includes(n) ? theme.muted : theme.faint;
      context.globalAlpha = 0.55;
      const high = this.y(constants.high[n]), low = this.y(constants.low[n]);
      context.fillRect(x - thick / 2, high, thick, Math.max(1, low - high));
      context.globalAlpha = 1;
      context.fillStyle = theme.muted;
      for (const bound of [constantBounds.low[n], constantBounds.high[n]]) {
        const log = bound > 0 ? Math.log10(bound) : NaN;
        if (log >= this.least && log <= this.most) context.fillRect(x - thick / 2 - 1, this.y(log) - 0.75, thick + 2, 1.5);
      }
      const now = constants.raw(state.step, n);
      if (!Number.isFinite(now)) continue;
      context.beginPath();
      context.arc(x, this.y(now), state.chosen.includes(n) ? dot + 1.5 : dot, 0, 2 * Math.PI);
      context.fillStyle = state.chosen.includes(n) ? theme.text : theme.accent;
      context.fill();
    }
    font(context, 11);
    context.fillStyle = theme.muted;
    context.textAlign = "center";
    for (const layer of WIRING.layers) {
      const middle = (this.places[layer.start] + this.places[layer.stop - 1]) / 2;
      const room = this.places[layer.stop - 1] - this.places[layer.start] + this.pitch + 6;
      context.fillText(fitted(context, layer.name, room), middle, this.height - 8);
    }
  }
}
