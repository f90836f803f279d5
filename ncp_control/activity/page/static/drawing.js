// Elements, colours, canvases that are sharp on every screen, and drawing functions that several pictures use.

function element(kind, attributes = {}, ...children) {
  const found = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in found && typeof value !== "string") found[name] = value;
    else found.setAttribute(name, value);
  }
  found.append(...children);
  return found;
}

const button = (text, act, attributes = {}) => {
  const found = element("button", { type: "button", class: "plain", ...attributes }, text);
  found.addEventListener("click", act);
  return found;
};

// Viridis: equal differences look equal, also to the colour-blind, and it has neither colour of the synapses.
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129],
  [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const SHADES = Array.from({ length: 256 }, (_, k) => {
  const place = k / 255 * (VIRIDIS.length - 1), low = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return VIRIDIS[low].map((from, c) => Math.round(from + (VIRIDIS[low + 1][c] - from) * (place - low)));
});
const SHADE_WORDS = new Uint32Array(new Uint8Array(SHADES.flatMap(([r, g, b]) => [r, g, b, 255])).buffer);
const SHADE_COLOURS = SHADES.map(([r, g, b]) => `rgb(${r}, ${g}, ${b})`);
// The colour of text on each shade: dark on light, light on dark.
const SHADE_INKS = SHADES.map(([r, g, b]) => 0.3 * r + 0.59 * g + 0.11 * b > 125 ? "#101418" : "#ffffff");

const shadeOf = (fraction) => Math.max(0, Math.min(255, Math.round(fraction * 255)));
const colourOf = (fraction) => Number.isFinite(fraction) ? SHADE_COLOURS[shadeOf(fraction)] : theme.missing;

const theme = {};
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["card", "line", "text", "muted", "faint", "accent", "ground", "limb", "missing", "raises", "lowers", "gap", "window", "model"])
    theme[name] = style.getPropertyValue(`--${name}`).trim();
  theme.limbEdge = style.getPropertyValue("--limb-edge").trim();
  theme.limbOther = style.getPropertyValue("--limb-other").trim();
  theme.font = getComputedStyle(document.body).fontFamily;
}

// A canvas that is as wide as its place on the page, in the screen's own pixels.
class Surface {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.measure();
  }

  measure() { this.width = this.canvas.clientWidth; }

  begin(height) {
    const ratio = window.devicePixelRatio || 1;
    const across = Math.max(1, Math.round(this.width * ratio)), down = Math.max(1, Math.round(height * ratio));
    if (this.canvas.width !== across || this.canvas.height !== down) {
      this.canvas.width = across;
      this.canvas.height = down;
      this.canvas.style.height = `${height}px`;
    }
    this.ratio = ratio;
    this.height = height;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, height);
    return this.context;
  }
}

// A picture with the size of a surface that is drawn once and then copied to it.
function offscreen(surface, height, draw) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(surface.width * (window.devicePixelRatio || 1)));
  canvas.height = Math.max(1, Math.round(height * (window.devicePixelRatio || 1)));
  const context = canvas.getContext("2d");
  context.scale(window.devicePixelRatio || 1, window.devicePixelRatio || 1);
  draw(context);
  return canvas;
}

function font(context, size, weight = 400) {
  context.font = `${weight} ${size}px ${theme.font}`;
}

// A number on a scale, without trailing zeros.
const mark = (value) => Math.abs(value) >= 1e4 ? value.toExponential(1).replace(".0e", "e").replace("e+", "e").replace("-", "−") : figure(value).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

// Text that is cut to a width, with an ellipsis at its end.
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length).trimEnd()}…`;
}

function rule(context, x, top, bottom, colour, dash = []) {
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(Math.round(x) + 0.5, top);
  context.lineTo(Math.round(x) + 0.5, bottom);
  context.stroke();
  context.restore();
}

// Draws a line through values(step) in a box. A pixel that holds many steps shows their least and greatest value.
function trace(context, values, view, box, low, high) {
  const count = view.to - view.from || 1;
  const x = (step) => box.left + (step - view.from) / count * box.width;
  const span = high > low ? high - low : 1, middle = high > low ? 0 : 0.5;
  const y = (value) => box.top + box.height * (1 - middle - (value - low) / span);
  context.beginPath();
  const stride = count / Math.max(1, box.width);
  let drawing = false;
  if (stride <= 2) {
    for (let step = view.from; step <= view.to; step++) {
      const value = values(step);
      if (Number.isFinite(value)) context[drawing ? "lineTo" : "moveTo"](x(step), y(value));
      drawing = Number.isFinite(value);
    }
  } else {
    for (let pixel = 0; pixel < box.width; pixel++) {
      let least = Infinity, most = -Infinity;
      const end = Math.min(view.to, Math.ceil(view.from + (pixel + 1) * stride));
      for (let step = Math.floor(view.from + pixel * stride); step <= end; step++) {
        const value = values(step);
        if (value < least) least = value;
        if (value > most) most = value;
      }
      if (least <= most) {
        context[drawing ? "lineTo" : "moveTo"](box.left + pixel, y(most));
        context.lineTo(box.left + pixel, y(least));
      }
      drawing = least <= most;
    }
  }
  context.stroke();
}

// Moves in time while a pointer is held down on a canvas. stepAt(x) is the step at a place.
function scrubs(canvas, stepAt, go) {
  let holding = false;
  const move = (event) => go(stepAt(event.clientX - canvas.getBoundingClientRect().left));
  canvas.addEventListener("pointerdown", (event) => {
    const step = stepAt(event.clientX - canvas.getBoundingClientRect().left);
    if (event.button !== 0 || step === null) return;
    state.held = shown();
    holding = true;
    canvas.setPointerCapture(event.pointerId);
    move(event);
  });
  canvas.addEventListener("pointermove", (event) => { if (holding) move(event); });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => {
      if (!holding) return;
      holding = false;
      state.held = null;
      go(state.step);
    });
  }
}

function tip(text, event) {
  const box = byId("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 4))}px`;
  box.style.top = `${event.clientY + 16 + height > innerHeight ? event.clientY - height - 8 : event.clientY + 16}px`;
}

function timeConstantText(neuron) {
  const { constants, constantsKnown } = state.activity;
  return `time constant ${constantsKnown[neuron] ? figure(constants.at(state.step, neuron)) : "not known"}`;
}

function describe(node) {
  const { inputs, neurons } = state.activity;
  if (node < 0) return `${nameOf(node)}\ninput ${figure(inputs.at(state.step, -1 - node))}`;
  return `${nameOf(node)}\nstate ${figure(neurons.at(state.step, node))}\n${timeConstantText(node)}`;
}
