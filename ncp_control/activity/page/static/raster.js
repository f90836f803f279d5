// The state of every neuron at every step shown. The picture of all steps is drawn once; then only the cursor moves.

class RasterView {
  constructor(go) {
    this.surface = new Surface(byId("raster"));
    const canvas = this.surface.canvas;
    scrubs(canvas, (x) => this.stepAt(x), go);
    canvas.addEventListener("dblclick", (event) => {
      const neuron = this.neuronAt(event.clientY - canvas.getBoundingClientRect().top);
      if (neuron !== null) toggle(neuron);
    });
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect(), step = this.stepAt(event.clientX - box.left);
      const neuron = this.neuronAt(event.clientY - box.top);
      const value = neuron === null ? NaN : state.activity.neurons.at(step, neuron);
      tip(neuron === null || event.pointerType === "touch" ? "" : `${nameOf(neuron)}\nstep ${step}: ${figure(value)}`, event);
    });
    canvas.addEventListener("pointerleave", () => tip(""));
  }

  resize() {
    this.surface.measure();
    const row = Math.max(1.5, Math.min(12, 144 / NEURONS));
    this.left = 74;
    this.across = this.surface.width - this.left;
    let y = 2;
    this.bands = WIRING.layers.map((layer) => {
      const band = { ...layer, y, height: Math.max(14, row * (layer.stop - layer.start)) };
      y += band.height + 4;
      return band;
    });
    this.bottom = y - 4;
    this.height = y + 13;
    this.paper = null;
  }

  stepAt(x) {
    const { from, to } = shown();
    return Math.max(from, Math.min(to, from + Math.floor((x - this.left) / this.across * (to - from + 1))));
  }

  neuronAt(y) {
    for (const band of this.bands)
      if (y >= band.y && y < band.y + band.height)
        return Math.min(band.stop - 1, band.start + Math.floor((y - band.y) / band.height * (band.stop - band.start)));
    return null;
  }

  x(step) {
    const { from, to } = shown();
    return this.left + (step - from + 0.5) / (to - from + 1) * this.across;
  }

  // An image with a column for each step, or, if there are more steps than pixels, for each pixel with its steps' mean.
  image({ from, to }) {
    const { neurons } = state.activity, steps = to - from + 1;
    const across = Math.max(1, Math.min(steps, Math.round(this.across * (window.devicePixelRatio || 1))));
    const canvas = document.createElement("canvas");
    canvas.width = across;
    canvas.height = NEURONS;
    const context = canvas.getContext("2d"), image = context.createImageData(across, NEURONS);
    const colours = new Uint32Array(image.data.buffer);
    for (let neuron = 0; neuron < NEURONS; neuron++) {
      const [low, high] = rangeOf(neuron), scale = high > low ? 255 / (high - low) : 0;
      for (let pixel = 0; pixel < across; pixel++) {
        const first = Math.floor(pixel * steps / across), end = Math.max(first + 1, Math.floor((pixel + 1) * steps / across));
        let sum = 0;
        for (let step = first; step < end; step++) sum += neurons.raw(from + step, neuron);
        const value = sum / (end - first);
        if (value === value) colours[neuron * across + pixel] = SHADE_WORDS[scale ? Math.max(0, Math.min(255, Math.round((value - low) * scale))) : 128];
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  drawBands(context) {
    const view = shown(), image = this.image(view);
    context.imageSmoothingEnabled = false;
    for (const band of this.bands)
      context.drawImage(image, 0, band.start, image.width, band.stop - band.start, this.left, band.y, this.across, band.height);
    for (const start of state.activity.starts) {
      if (start <= view.from || start > view.to) continue;
      const x = this.x(start - 0.5);
      context.fillStyle = theme.card;
      context.fillRect(x - 2, 0, 4, this.bottom);
      rule(context, x - 0.5, 0, this.bottom, theme.muted, [3, 3]);
    }
    ticks(context, view.from, view.to, this.left, this.across, this.bottom + 10);
  }

  draw() {
    const context = this.surface.begin(this.height), view = shown();
    if (!isWhole(view)) {
      this.drawBands(context);
    } else {
      if (this.paper === null) this.paper = offscreen(this.surface, this.height, (paper) => this.drawBands(paper));
      context.drawImage(this.paper, 0, 0, this.surface.width, this.height);
    }
    font(context, 11);
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = theme.muted;
    for (const band of this.bands) context.fillText(fitted(context, band.name, this.left - 10), this.left - 10, band.y + band.height / 2);
    for (const neuron of state.chosen) {
      const band = this.bands.find((one) => neuron >= one.start && neuron < one.stop);
      const y = band.y + (neuron - band.start + 0.5) / (band.stop - band.start) * band.height;
      context.fillStyle = theme.text;
      context.beginPath();
      context.moveTo(this.left - 7, y - 4);
      context.lineTo(this.left - 1, y);
      context.lineTo(this.left - 7, y + 4);
      context.fill();
    }
    const x = this.x(state.step);
    context.fillStyle = theme.card;
    context.fillRect(x - 2.5, 0, 5, this.bottom + 2);
    context.fillStyle = theme.text;
    context.fillRect(x - 1, 0, 2, this.bottom + 2);
  }
}

// Writes a few step numbers under a picture. The first and the last are aligned with its sides.
function ticks(context, from, to, left, across, y) {
  font(context, 10.5);
  context.fillStyle = theme.muted;
  context.textBaseline = "middle";
  const count = across < 260 ? 2 : across < 520 ? 3 : 5;
  for (let k = 0; k < count; k++) {
    const step = Math.round(from + (to - from) * k / (count - 1));
    context.textAlign = k === 0 ? "left" : k === count - 1 ? "right" : "center";
    context.fillText(k === 0 ? `step ${step}` : `${step}`, left + across * k / (count - 1), y);
  }
}
