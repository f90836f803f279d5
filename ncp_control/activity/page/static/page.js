// All pictures show the same step. Here are its slider, the keyboard, playing, and the address.

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
    const { continued } = state.activity, from = continued ? `&from=${continued.starts[state.run]}` : "";
    try {
      history.replaceState(null, "", `#step=${state.step}${moment}${from}`);
    } catch { /* Some viewers do not let a page change its address. The page works without that. */ }
  }, 150);
}

function readAddress(hash) {
  const wanted = new URLSearchParams(hash.slice(1));
  const moment = parseInt(wanted.get("moment"), 10), step = parseInt(wanted.get("step"), 10);
  if (moment >= 0 && moment < PAGE.activities.length && moment !== state.number) setMoment(moment);
  const from = state.activity.continued?.starts.indexOf(parseInt(wanted.get("from"), 10));
  if (from >= 0) setRun(from);
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

function setMoment(number) {
  state.number = number;
  state.activity = openActivity(number);
  state.step = Math.min(state.step, state.activity.steps - 1);
  showRecording();
  resizeAll();
}

function resizeAll() {
  resizeViews();
  setStep(state.step);
  drawAll();
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
  byId("facts").replaceChildren(...activity.facts.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]));
  const names = (some) => some.flatMap((name, k) => {
    const own = button(name, () => toggle(WIRING.neuronNames.indexOf(name)));
    return k ? [", ", own] : [own];
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
  showCurrentsLegend();
  byId("raster-note").textContent = "drag to move in time";
  const strongest = activity.currentsKnown ? " strongest" : "";
  byId("thinned").textContent = `drawn: the ${MOST_SYNAPSES.toLocaleString("en")}${strongest} of ${SYNAPSES.length.toLocaleString("en")} synapses`;
  showRun();
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
  // A menu, the other sliders and a button keep their own keys.
  if (target.tagName === "SELECT" || ["moment", "run"].includes(target.id)) return;
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
  startTheme();
  byId("gap-legend").hidden = !GAPS.length;
  byId("thinned").hidden = SYNAPSES.length <= MANY_SYNAPSES;
  fillMenus();
  state.colouring = likelyColouring();
  showRecording();

  const wiring = new WiringView();
  views.push(wiring, new RasterView(setStep), new ChosenView(setStep));
  if (doingLines().length) views.push(new TraceView(byId("doing"), doingLines, setStep, () => state.activity.random));
  else byId("doing-panel").hidden = true;
  if (seeingLines().length) views.push(new TraceView(byId("seeing"), seeingAheadLines, setStep));
  else byId("seeing-panel").hidden = true;
  views.push(new ConstantsView());
  const hasModel = PAGE.activities.some(({ continued }) => continued);
  const bodies = PAGE.activities.map(({ body }) => body).filter(Boolean);
  if (bodies.length) {
    byId("body-panel").hidden = false;
    const view = new BodyView(bodies, "body", undefined, hasModel ? 210 : 160);
    view.over = (context) => drawModelBody(view, context);
    views.push(view);
  }
  if (hasModel) {
    byId("ahead-panel").hidden = false;
    views.push(new ErrorView(setStep));
    byId("run").addEventListener("input", () => setRun(+byId("run").value));
  }
  if (PAGE.curve) {
    byId("curve-panel").hidden = false;
    views.push(new CurveView(setMoment));
  }
  watchViews(resizeAll);
  resizeAll();
  if (state.activity.continued) setStep(state.activity.continued.starts[state.run]);
  readAddress(location.hash);

  byId("step").addEventListener("input", () => setStep(+byId("step").value));
  byId("play").addEventListener("click", () => state.playing ? pause() : play());
  addEventListener("keydown", onKey, true);
  // The event's address, because a step that came to rest in the meantime may have changed the present one.
  addEventListener("hashchange", (event) => readAddress(new URL(event.newURL).hash));

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
    run: () => state.run, setRun,
    moment: () => state.number, setMoment, setColouring: (way) => { setColouring(way); drawAll(); },
  };
}

start();
