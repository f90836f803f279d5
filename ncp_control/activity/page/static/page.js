// All pictures show the same step. Here are its slider, the keyboard, playing, the address, and when pictures are drawn.

const views = [];
const drawAll = () => views.forEach((view) => view.draw());
// While time moves, only the pictures on the screen are drawn. The others follow when it stops.
const onScreen = new Set();
const drawSeen = () => views.forEach((view) => { if (onScreen.has(view.surface.canvas)) view.draw(); });
const redoPapers = () => views.forEach((view) => { if ("paper" in view) view.paper = null; });

function setStep(step) {
  state.step = Math.max(0, Math.min(state.activity.steps - 1, Math.round(step) || 0));
  byId("step").value = state.step;
  const time = seconds(state.step);
  byId("now").textContent = `step ${state.step} of ${state.activity.steps - 1}${time && ` · ${time}`}`;
  byId("step").setAttribute("aria-valuetext", byId("now").textContent);
  drawSeen();
  if (!state.playing) rest();
}

// The address changes when the step has rested for a moment, because browsers refuse many changes a second.
let resting = 0;
function rest() {
  clearTimeout(resting);
  resting = setTimeout(() => {
    drawAll();
    const moment = PAGE.activities.length > 1 ? `&moment=${state.number}` : "";
    try {
      history.replaceState(null, "", `#step=${state.step}${moment}`);
    } catch { /* Some viewers do not let a page change its address. The page works without that. */ }
  }, 150);
}

function readAddress(hash) {
  const wanted = new URLSearchParams(hash.slice(1));
  const moment = parseInt(wanted.get("moment"), 10), step = parseInt(wanted.get("step"), 10);
  if (moment >= 0 && moment < PAGE.activities.length && moment !== state.number) setMoment(moment);
  if (Number.isFinite(step)) setStep(step);
}

let last = 0, owed = 0;
function frame(now) {
  if (!state.playing) return;
  const { dt, steps } = state.activity;
  owed += Math.min(0.25, (now - last) / 1000) * state.speed / (dt || 1);
  last = now;
  const ahead = Math.floor(owed);
  owed -= ahead;
  if (ahead) setStep(state.step + ahead);
  if (state.step >= steps - 1) pause();
  else requestAnimationFrame(frame);
}

function play() {
  if (state.playing) return;
  if (state.step >= state.activity.steps - 1) setStep(0);
  [state.playing, last, owed] = [true, performance.now(), 0];
  clearTimeout(resting);
  showPlaying();
  requestAnimationFrame(frame);
}

function pause() {
  state.playing = false;
  showPlaying();
  rest();
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

function setMoment(number) {
  state.number = number;
  state.activity = openActivity(number);
  state.step = Math.min(state.step, state.activity.steps - 1);
  showRecording();
  resizeAll();
}

function resizeAll() {
  for (const view of views) view.resize();
  redoPapers();
  setStep(state.step);
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

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  readTheme();
  redoPapers();
}

// Shows the facts about the present rollout.
function showRecording() {
  const { activity } = state;
  const count = (number, what) => `${number.toLocaleString("en")} ${what}`;
  byId("summary").textContent = [
    count(NEURONS, "neurons"), count(SYNAPSES.length, "synapses"),
    ...(GAPS.length ? [count(GAPS.length, "gap junctions")] : []), count(activity.steps, "steps"),
    ...(activity.dt ? [`${(activity.steps * activity.dt).toFixed(1)} s`] : []),
  ].join(" · ");
  byId("facts").replaceChildren(...activity.facts.flatMap(([term, text]) => {
    const name = document.createElement("dt"), value = document.createElement("dd");
    name.textContent = term;
    value.textContent = text;
    return [name, value];
  }));
  const names = (some) => some.flatMap((name, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => toggle(WIRING.neuronNames.indexOf(name)));
    return k ? [", ", button] : [button];
  });
  const { still, saturated } = activity;
  byId("health").replaceChildren(
    ...(still.length ? ["Never change: ", ...names(still), ". "] : ["Every neuron changes. "]),
    ...(saturated.length ? ["Saturated: ", ...names(saturated), "."] : ["None is saturated."]),
    ...(activity.silenced ? [` Silenced: ${activity.silenced}.`] : []),
  );
  byId("moment").value = state.number;
  byId("moment-label").textContent = activity.label || `${state.number + 1} of ${PAGE.activities.length}`;
  byId("step").max = activity.steps - 1;
  byId("starts").replaceChildren(...activity.starts.filter((start) => start > 0).map((start) => {
    const mark = document.createElement("i");
    mark.style.left = `${start / Math.max(1, activity.steps - 1) * 100}%`;
    return mark;
  }));
  byId("doing-title").textContent = activity.actions ? activity.rewards ? "Actions and reward" : "Actions" : "Outputs";
  byId("doing-note").textContent = [
    ...(activity.executed_actions ? ["dashed: as executed"] : []), ...(activity.random.length ? ["shaded: a random action"] : []),
  ].join(" · ");
  byId("seeing-note").textContent = activity.predictions ? "dashed: predicted one step earlier" : "";
  byId("constants-note").textContent = activity.constantsKnown.some(Boolean) ? "dot: now · bar: recorded · ticks: bounds" : "";
  byId("currents-legend").textContent = activity.currentsKnown ? "wider: more current now" : "currents: not known";
  byId("raster-note").textContent = "drag to move in time";
  const strongest = activity.currentsKnown ? " strongest" : "";
  byId("thinned").textContent = `drawn: the ${MOST_SYNAPSES.toLocaleString("en")}${strongest} of ${SYNAPSES.length.toLocaleString("en")} synapses`;
  setColouring(state.colouring);
}

function fillMenus() {
  const { dt, steps } = state.activity;
  const rates = dt ? [0.1, 0.25, 0.5, 1, 2, 4, 8] : [2, 5, 10, 20, 50, 100, 200];
  for (const rate of rates) byId("speed").append(new Option(dt ? `${rate}×` : `${rate} steps/s`, rate));
  state.speed = +(byId("speed").value = dt ? 1 : 20);
  byId("speed").addEventListener("change", () => { state.speed = +byId("speed").value; });
  for (const size of [50, 100, 200, 500, 1000]) if (size < steps) byId("window").append(new Option(`${size} steps`, size));
  byId("window").append(new Option("all steps", 0));
  state.window = +(byId("window").value = steps > 100 ? 100 : 0);
  byId("window").addEventListener("change", () => {
    state.window = +byId("window").value;
    redoPapers();
    drawAll();
  });
  byId("colouring").addEventListener("change", () => {
    setColouring(byId("colouring").value);
    drawAll();
  });
  byId("moments").hidden = PAGE.activities.length < 2;
  byId("moment").max = PAGE.activities.length - 1;
  byId("moment").addEventListener("input", () => setMoment(+byId("moment").value));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target, key } = event;
  if (key === "Escape") return clearChosen();
  // A menu, the other slider and a button keep their own keys.
  if (target.tagName === "SELECT" || target.id === "moment") return;
  const far = event.shiftKey ? 10 : 1;
  const moves = { ArrowLeft: -far, ArrowDown: -far, ArrowRight: far, ArrowUp: far };
  const vertical = key === "ArrowDown" || key === "ArrowUp";
  if (key === " " && !["BUTTON", "SUMMARY"].includes(target.tagName)) state.playing ? pause() : play();
  else if (key in moves && !(vertical && target.id !== "step")) setStep(state.step + moves[key]);
  else if (key === "Home") setStep(0);
  else if (key === "End") setStep(state.activity.steps - 1);
  else return;
  event.preventDefault();
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { setTheme(dark.matches ? "dark" : "light"); drawAll(); });
  byId("theme").addEventListener("click", () => {
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    drawAll();
  });
  byId("scale").style.background = `linear-gradient(to right, ${VIRIDIS.map((shade) => `rgb(${shade})`).join(", ")})`;
  byId("gap-legend").hidden = !GAPS.length;
  byId("thinned").hidden = SYNAPSES.length <= MANY_SYNAPSES;
  fillMenus();
  state.colouring = likelyColouring();
  showRecording();

  const wiring = new WiringView();
  views.push(wiring, new RasterView(setStep), new ChosenView(setStep));
  if (doingLines().length) views.push(new TraceView(byId("doing"), doingLines, setStep, () => state.activity.random));
  else byId("doing-panel").hidden = true;
  if (seeingLines().length) views.push(new TraceView(byId("seeing"), seeingLines, setStep));
  else byId("seeing-panel").hidden = true;
  views.push(new ConstantsView());
  if (PAGE.activities.some(({ body }) => body)) {
    byId("body-panel").hidden = false;
    views.push(new BodyView());
  }
  const seen = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    onScreen[isIntersecting ? "add" : "delete"](target);
    if (isIntersecting) views.find((view) => view.surface.canvas === target).draw();
  }), { rootMargin: "50px" });
  for (const view of views) {
    onScreen.add(view.surface.canvas);
    seen.observe(view.surface.canvas);
  }
  resizeAll();
  readAddress(location.hash);

  byId("step").addEventListener("input", () => setStep(+byId("step").value));
  byId("play").addEventListener("click", () => state.playing ? pause() : play());
  addEventListener("keydown", onKey, true);
  // The event's address, because a step that came to rest in the meantime may have changed the present one.
  addEventListener("hashchange", (event) => readAddress(new URL(event.newURL).hash));
  let width = document.documentElement.clientWidth, ratio = window.devicePixelRatio;
  new ResizeObserver(() => {
    // The page's height changes with every neuron that is chosen, but the pictures depend only on its width.
    if (document.documentElement.clientWidth === width && window.devicePixelRatio === ratio) return;
    [width, ratio] = [document.documentElement.clientWidth, window.devicePixelRatio];
    resizeAll();
  }).observe(document.documentElement);

  const numberOf = (neuron) => typeof neuron === "number" ? neuron : WIRING.neuronNames.indexOf(neuron);
  window.ncp = {
    step: () => state.step, setStep, play, pause, playing: () => state.playing,
    counts: { neurons: NEURONS, synapses: WIRING.synapses.source.length, sensory: WIRING.sensory.source.length, gaps: GAPS.length },
    steps: () => state.activity.steps,
    fillOf: (neuron) => colourOf(fractionOf(numberOf(neuron))),
    valueOf: (neuron) => state.activity.neurons.at(state.step, numberOf(neuron)),
    timeConstantOf: (neuron) => state.activity.constants.at(state.step, numberOf(neuron)),
    // Where a neuron is drawn on the wiring's canvas.
    placeOf: (neuron) => ({ ...wiring.places.get(numberOf(neuron)), radius: wiring.radius }),
    select: (neuron) => { if (!state.chosen.includes(numberOf(neuron))) toggle(numberOf(neuron)); },
    deselect: clearChosen,
    selected: () => state.chosen.map(nameOf),
    moment: () => state.number, setMoment, setColouring: (way) => { setColouring(way); drawAll(); },
  };
}

start();
