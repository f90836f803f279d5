// The circuit in its layers, from the inputs on the left to the motor neurons on the right.

// The strongest currents are drawn at every step. All synapses are drawn once, faintly, beneath them, unless they are so
// many that they would cover the picture.
const MANY_SYNAPSES = 1500, MOST_SYNAPSES = 400;
// Thin lines are drawn much faster than broad ones, so only the strongest are broad. The others differ in opacity.
const MOST_BROAD = 80, BROAD = 0.35, LEVELS = 12;
// Every synapse looks alike if the currents are not known.
const NEUTRAL = 0.25;

class WiringView {
  // pick(synapse): called with the synapse that was clicked on, if it is given.
  // mark(context, view): draws over the circuit, if it is given.
  constructor(pick = null, mark = null) {
    this.surface = new Surface(byId("wiring"));
    this.mark = mark;
    this.rewire();
    this.surface.canvas.addEventListener("click", (event) => {
      const node = this.nodeAt(event);
      if (node !== null && node >= 0) toggle(node);
      else if (pick && node === null) pick(this.synapseAt(event));
    });
    this.surface.canvas.addEventListener("pointermove", (event) => {
      const node = this.nodeAt(event);
      this.surface.canvas.style.cursor = node !== null && node >= 0 ? "pointer" : "";
      tip(node === null || event.pointerType === "touch" ? "" : describe(node), event);
    });
    this.surface.canvas.addEventListener("pointerleave", () => tip(""));
  }

  // Makes the layers of the circuit that is shown now.
  rewire() {
    this.ranks = new Map();
    this.places = new Map();
    this.layers = [{ name: "sensory", nodes: Array.from({ length: WIRING.inputs }, (_, k) => -1 - k) }];
    for (const { name, start, stop } of WIRING.layers)
      this.layers.push({ name, nodes: Array.from({ length: stop - start }, (_, k) => start + k) });
    this.layers.forEach((layer, rank) => layer.nodes.forEach((node) => this.ranks.set(node, rank)));
  }

  resize() {
    this.surface.measure();
    this.layout();
  }

  layout() {
    const { width, context } = this.surface;
    const narrow = width < 520;
    const largest = Math.max(...this.layers.map((layer) => layer.nodes.length));
    this.top = 26;
    this.height = this.top + Math.min(narrow ? 420 : 440, Math.max(largest * 16, Math.min(250, largest * 52))) + 6;
    const room = this.height - this.top - 6;
    font(context, 11);
    // There is room for names beside the inputs and the motor neurons if each name has a line of its own.
    const most = Math.floor(room / 12.5);
    const label = (layer, share) => {
      const named = layer.nodes.filter((node) => !this.inside(node));
      if (!named.length || layer.nodes.length > most) return 0;
      return Math.min(width * share, 6 + Math.max(...named.map((node) => context.measureText(nameOf(node)).width)));
    };
    this.left = label(this.layers[0], narrow ? 0.3 : 0.25);
    this.right = label(this.layers.at(-1), narrow ? 0.22 : 0.2);
    // A layer with more neurons than lines has several columns.
    for (const layer of this.layers) {
      layer.columns = layer.nodes.length <= most ? 1 : Math.ceil(layer.nodes.length / Math.floor(room / 16));
      layer.rows = Math.ceil(layer.nodes.length / layer.columns);
      layer.pitch = Math.min(52, room / layer.rows);
    }
    this.radius = Math.max(3.5, Math.min(14, 0.44 * Math.min(...this.layers.map((layer) => layer.pitch))));
    const margin = this.radius + 4;
    const steps = this.layers.reduce((sum, layer) => sum + layer.columns - 1, 0);
    const across = width - this.left - this.right - 2 * margin - (this.right ? 0 : 20);
    const step = Math.min(this.radius * 2 + 10, steps ? across * 0.55 / steps : 0);
    const gap = (across - step * steps) / (this.layers.length - 1);
    let x = this.left + margin;
    for (const layer of this.layers) {
      layer.x = x;
      layer.end = x + step * (layer.columns - 1);
      layer.nodes.forEach((node, k) => {
        const column = Math.floor(k / layer.rows), row = k % layer.rows;
        const slide = layer.columns > 1 && column % 2 ? layer.pitch / 2 : 0;
        const start = this.top + room / 2 - (layer.rows - 1 + (layer.columns > 1 ? 0.5 : 0)) * layer.pitch / 2;
        this.places.set(node, { x: x + column * step, y: start + row * layer.pitch + slide });
      });
      x = layer.end + gap;
    }
    this.gap = gap;
    for (const edge of [...SYNAPSES, ...GAPS]) edge.path = this.curve(edge);
    this.paper = null;
  }

  // The text that fits into a node: its number in the layer, or a short name.
  inside(node) {
    const name = nameOf(node), layer = this.layers[this.ranks.get(node)].name;
    const number = (node < 0 ? /^input(\d+)$/ : new RegExp(`^${layer.replace(/[^\w]/g, "")}\\.?(\\d+)$`)).exec(name);
    if (number) return number[1];
    return name.length <= 3 && node >= 0 ? name : "";
  }

  curve({ kind, source, target }) {
    const from = this.places.get(source), to = this.places.get(target), r = this.radius;
    const path = new Path2D();
    const rank = this.ranks.get(source), other = this.ranks.get(target);
    if (source === target) {
      path.arc(from.x + r * 0.9, from.y - r * 0.9, r * 0.75, Math.PI * 0.95, Math.PI * 2.55);
    } else if (rank === other) {
      // Lines down bulge to the right and lines up to the left. Behind the last layer there is little room, and none if
      // it has names beside it.
      const last = rank === this.layers.length - 1, down = to.y >= from.y;
      const side = down && !(last && this.right) ? 1 : -1;
      const room = last && side > 0 ? 22 : this.gap * 0.55;
      const out = side * (r + Math.min(room, 12 + 0.3 * Math.abs(to.y - from.y)) + (last && down && side < 0 ? 8 : 0));
      path.moveTo(from.x, from.y);
      path.bezierCurveTo(from.x + out, from.y, to.x + out, to.y, to.x, to.y);
    } else {
      // Two neurons can have a synapse and a gap junction, or a synapse each way. These lines run beside each other.
      const bend = (to.x - from.x) * 0.45, aside = kind === "gaps" ? -1.6 * r : other < rank ? 1.6 * r : 0;
      path.moveTo(from.x, from.y);
      path.bezierCurveTo(from.x + bend, from.y + aside, to.x - bend, to.y + aside, to.x, to.y);
    }
    return path;
  }

  // The synapses to draw with their strengths, weakest first.
  strengths() {
    const unknown = state.activity.currentsKnown ? 0 : NEUTRAL;
    const marked = state.chosen.length ? new Set(state.chosen) : null;
    let found = SYNAPSES.map((edge) => ({
      edge, strength: strengthOf(edge, unknown),
      marked: marked && (marked.has(edge.source) || marked.has(edge.target)),
    }));
    found.sort((a, b) => a.strength - b.strength);
    if (found.length > MOST_SYNAPSES) {
      const kept = found.slice(-MOST_SYNAPSES);
      found = marked ? [...found.slice(0, -MOST_SYNAPSES).filter((one) => one.marked), ...kept] : kept;
    }
    if (marked) found.sort((a, b) => a.marked - b.marked);
    return { found, marked };
  }

  // Draws what stays the same from step to step: names, headings, and every synapse faintly.
  drawPaper(context) {
    const { width } = this.surface;
    font(context, width < 420 ? 11 : 12);
    context.fillStyle = theme.muted;
    context.textBaseline = "alphabetic";
    this.layers.forEach((layer, rank) => {
      const middle = (layer.x + layer.end) / 2;
      const text = width < 420 ? layer.name : `${layer.name} ${layer.nodes.length}`, half = context.measureText(text).width / 2;
      context.textAlign = "left";
      context.fillText(text, Math.max(0, Math.min(middle - half, width - 2 * half)), 12);
    });
    if (SYNAPSES.length <= MANY_SYNAPSES) {
      context.globalAlpha = state.chosen.length ? 0.05 : 0.13;
      context.lineWidth = 0.75;
      context.strokeStyle = theme.muted;
      for (const edge of SYNAPSES) context.stroke(edge.path);
      context.globalAlpha = 1;
    }
    context.textBaseline = "middle";
    this.names(context, this.layers[0], this.left, "right", -1);
    this.names(context, this.layers.at(-1), this.right, "left", 1);
  }

  names(context, layer, width, align, side) {
    if (!width) return;
    font(context, Math.max(9, Math.min(11, layer.pitch - 1.5)));
    context.textAlign = align;
    context.fillStyle = theme.text;
    for (const node of layer.nodes) {
      if (this.inside(node)) continue;
      const { x, y } = this.places.get(node);
      context.fillText(fitted(context, nameOf(node), width - 2), x + side * (this.radius + 4), y + 0.5);
    }
  }

  draw() {
    const context = this.surface.begin(this.height);
    if (this.paper === null) this.paper = offscreen(this.surface, this.height, (paper) => this.drawPaper(paper));
    context.drawImage(this.paper, 0, 0, this.surface.width, this.height);
    const { found, marked } = this.strengths();
    const opacity = (strength, mine) => (marked && !mine ? 0.12 : 1) * Math.min(0.92, 0.12 + 0.8 * strength ** 0.8 + (mine ? 0.12 : 0));
    const thin = new Map(), broad = [];
    found.forEach((one, k) => {
      const { edge, strength, marked: mine } = one;
      if (strength < 0.04 && !mine) return;
      if (mine || (strength > BROAD && k >= found.length - MOST_BROAD)) return broad.push(one);
      const level = Math.ceil(strength * LEVELS) / LEVELS, effect = effectOf(edge), key = `${level} ${effect}`;
      if (!thin.has(key)) thin.set(key, { level, colour: colourOfEffect(effect), path: new Path2D() });
      thin.get(key).path.addPath(edge.path);
    });
    context.lineWidth = 1;
    for (const { level, colour, path } of thin.values()) {
      context.globalAlpha = opacity(level, false);
      context.strokeStyle = colour;
      context.stroke(path);
    }
    for (const { edge, strength, marked: mine } of broad) {
      context.globalAlpha = opacity(strength, mine);
      context.lineWidth = 1 + 2.4 * Math.max(0, strength - BROAD / 2);
      context.strokeStyle = colourOfEffect(effectOf(edge));
      context.stroke(edge.path);
    }
    // A gap junction is two thin lines: a broad line with a narrower one on it in the colour of the card.
    const loudest = GAPS.length ? Math.max(1e-9, ...state.activity.gaps.low.map(Math.abs), ...state.activity.gaps.high.map(Math.abs)) : 1;
    for (const edge of GAPS) {
      const current = currentOf(edge);
      const width = 3 + (Number.isFinite(current) ? 4 * Math.min(1, Math.abs(current) / loudest) : 0);
      context.globalAlpha = 1;
      context.strokeStyle = marked && !marked.has(edge.source) && !marked.has(edge.target) ? theme.faint : theme.gap;
      context.lineWidth = width;
      context.stroke(edge.path);
      context.strokeStyle = theme.card;
      context.lineWidth = width - 2.4;
      context.stroke(edge.path);
    }
    context.globalAlpha = 1;
    this.drawNodes(context);
  }

  drawNodes(context) {
    const r = this.radius;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const [node, { x, y }] of this.places) {
      const fraction = fractionOf(node);
      context.beginPath();
      if (node < 0) context.rect(x - r * 0.72, y - r * 0.72, r * 1.44, r * 1.44);
      else context.arc(x, y, r, 0, 2 * Math.PI);
      context.fillStyle = colourOf(fraction);
      context.fill();
      const order = state.chosen.indexOf(node);
      context.lineWidth = order < 0 ? 1 : 3;
      context.strokeStyle = order < 0 ? theme.card : theme.text;
      context.stroke();
      const text = this.inside(node);
      if (text && r >= 6) {
        font(context, Math.min(11, r * (text.length > 2 ? 0.85 : 1.1)), 500);
        context.fillStyle = Number.isFinite(fraction) ? SHADE_INKS[shadeOf(fraction)] : theme.text;
        context.fillText(text, x, y + 0.5);
      }
    }
    this.middleNames(context);
    if (this.mark) this.mark(context, this);
  }

  // Names of neurons in the middle layers lie over synapses, so they have an outline in the colour of the card.
  middleNames(context) {
    const layers = this.layers.slice(1, -1).filter((layer) => layer.columns === 1);
    context.textAlign = "left";
    context.lineJoin = "round";
    for (const layer of layers) {
      font(context, Math.max(9, Math.min(11, layer.pitch - 1.5)));
      for (const node of layer.nodes) {
        if (this.inside(node)) continue;
        const { x, y } = this.places.get(node);
        // The name is under the neuron if there is room, and otherwise beside it.
        const under = layer.pitch > 2 * this.radius + 14;
        const text = fitted(context, nameOf(node), under ? this.gap - 8 : this.gap - 2 * this.radius - 4);
        const place = under ? [x - context.measureText(text).width / 2, y + this.radius + 9] : [x + this.radius + 3, y + 0.5];
        context.strokeStyle = theme.card;
        context.lineWidth = 3;
        context.strokeText(text, ...place);
        context.fillStyle = theme.text;
        context.fillText(text, ...place);
      }
    }
  }

  nodeAt(event) {
    const box = this.surface.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = null, least = this.radius + (event.pointerType === "touch" ? 10 : 3);
    for (const [node, place] of this.places) {
      const distance = Math.hypot(place.x - x, place.y - y);
      if (distance < least) [best, least] = [node, distance];
    }
    return best;
  }

  // The synapse under the pointer, the strongest of several now, or null.
  synapseAt(event) {
    const box = this.surface.canvas.getBoundingClientRect(), context = this.surface.context, { ratio } = this.surface;
    const x = (event.clientX - box.left) * ratio, y = (event.clientY - box.top) * ratio;
    context.lineWidth = event.pointerType === "touch" ? 16 : 7;
    const near = [...SYNAPSES, ...GAPS].filter(({ path }) => context.isPointInStroke(path, x, y));
    return near.length ? near.reduce((one, other) => strengthOf(other) > strengthOf(one) ? other : one) : null;
  }
}
