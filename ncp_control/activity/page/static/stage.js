// When the pictures of a page are drawn, what is chosen in them, and their colours.

const views = [];
const drawAll = () => views.forEach((view) => view.draw());
// While time moves, only the pictures on the screen are drawn. The others follow when it stops.
const onScreen = new Set();
const drawSeen = () => views.forEach((view) => { if (onScreen.has(view.surface.canvas)) view.draw(); });
const redoPapers = () => views.forEach((view) => { if ("paper" in view) view.paper = null; });

function resizeViews() {
  for (const view of views) view.resize();
  redoPapers();
}

// Draws pictures as they come onto the screen, and calls `resized` when the page has another width.
function watchViews(resized) {
  const seen = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    onScreen[isIntersecting ? "add" : "delete"](target);
    if (isIntersecting) views.find((view) => view.surface.canvas === target).draw();
  }), { rootMargin: "50px" });
  for (const view of views) {
    onScreen.add(view.surface.canvas);
    seen.observe(view.surface.canvas);
  }
  let width = document.documentElement.clientWidth, ratio = window.devicePixelRatio;
  new ResizeObserver(() => {
    // The page's height changes with every neuron that is chosen, but the pictures depend only on its width.
    if (document.documentElement.clientWidth === width && window.devicePixelRatio === ratio) return;
    [width, ratio] = [document.documentElement.clientWidth, window.devicePixelRatio];
    resized();
  }).observe(document.documentElement);
}

function showPlaying() {
  byId("play").classList.toggle("playing", state.playing);
  byId("play").setAttribute("aria-label", state.playing ? "pause" : "play");
}

function toggle(neuron) {
  state.chosen = state.chosen.includes(neuron) ? state.chosen.filter((one) => one !== neuron) : [...state.chosen, neuron];
  redoPapers();
  drawAll();
}

function clearChosen() {
  state.chosen = [];
  redoPapers();
  drawAll();
}

function setColouring(way) {
  state.colouring = byId("colouring").value = way;
  const { bounds, neurons } = state.activity;
  const ends = WIRING.neuronNames.map((_, n) => rangeOf(n));
  const same = ends.every(([low, high]) => low === ends[0][0] && high === ends[0][1]);
  const words = way === "bounds" && bounds.low.every((low) => low !== null) ? ["low bound", "high bound"] : ["least", "greatest"];
  byId("scale-low").textContent = same ? mark(ends[0][0]) : words[0];
  byId("scale-high").textContent = same ? mark(ends[0][1]) : words[1];
  redoPapers();
}

// If the bounds are so wide that every neuron would have about the same shade, the recorded range is the better scale.
function likelyColouring() {
  const { bounds, neurons } = state.activity;
  const parts = neurons.low.map((low, n) => bounds.low[n] === null || bounds.high[n] === null ? 0
    : (neurons.high[n] - low) / (bounds.high[n] - bounds.low[n])).sort((a, b) => a - b);
  return parts[Math.floor(parts.length / 2)] > 0.25 ? "bounds" : "range";
}

// Says what the colours and the widths of synapses mean, if the circuit's currents are known.
function showCurrentsLegend() {
  const { currentsKnown } = state.activity;
  for (const effect of document.querySelectorAll(".legend .effect")) effect.hidden = !currentsKnown;
  byId("currents-legend").textContent = currentsKnown ? "wider: more current now" : "currents: not known";
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  readTheme();
  redoPapers();
}

function startTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); drawAll(); });
  byId("theme").addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    drawAll();
  });
  byId("scale").style.background = `linear-gradient(to right, ${VIRIDIS.map((shade) => `rgb(${shade})`).join(", ")})`;
}
