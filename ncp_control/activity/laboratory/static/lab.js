// The laboratory: playing, the keyboard, what is shown, and how everything begins.

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8];
const FASTEST = Infinity; // as fast as this machine can; pictures are drawn seldom then
const PICTURES = 50, SELDOM = 200; // milliseconds between two pictures of the circuit

const BODY_HEIGHT = 190;

const parts = {}; // the panels and views, by name
const bodyViews = () => [parts.body, parts.otherBody];

// Shows a step that was taken; the newest one by default.
function lookAt(step = state.activity.steps - 1) {
  const { steps } = state.activity;
  state.step = Math.max(0, Math.min(steps - 1, Math.round(step) || 0));
  const slider = byId("step");
  slider.max = Math.max(0, steps - 1);
  slider.value = state.step;
  byId("now").textContent = `step ${state.step}${state.step < steps - 1 ? ` of ${steps - 1}` : ""} · ${seconds(state.step)}`;
  slider.setAttribute("aria-valuetext", byId("now").textContent);
  for (const side of bench.other ? bench.sides : []) {
    const { series, steps: taken } = bench.runs[side], at = state.step === steps - 1 ? taken - 1 : Math.min(state.step, taken - 1);
    if (series.returns) byId(`return-${side}`).textContent = `return ${figure(series.returns.at(at, 0))}`;
  }
  (state.playing ? drawSeen : drawAll)();
}

// Looks at another step by hand.
function lookBack(step) {
  pause();
  lookAt(step);
}

function tween(fraction) {
  for (const run of Object.values(bench.runs)) run.tween(fraction);
}

let last = 0, owed = 0, drawn = 0;
function frame(now) {
  if (!state.playing) return;
  let stepped = 0, moves = true;
  if (state.speed === FASTEST) {
    for (const end = performance.now() + 25; moves && performance.now() < end; stepped++) moves = bench.advance();
  } else {
    owed += Math.min(0.25, (now - last) / 1000) * state.speed / state.activity.dt;
    for (; moves && owed >= 1; owed--, stepped++) moves = bench.advance();
  }
  last = now;
  tween(state.speed === FASTEST || !moves ? 0 : Math.min(1, owed));
  state.step = state.activity.steps - 1;
  if (stepped && now - drawn >= (state.speed === FASTEST ? SELDOM : PICTURES) - 8) {
    drawn = now;
    lookAt();
  } else if (state.speed !== FASTEST) bodyViews().forEach((view) => view.draw());
  if (!moves) ended();
  else requestAnimationFrame(frame);
}

function play() {
  if (state.playing) return;
  if (bench.isOver) replay();
  [state.playing, last, owed] = [true, performance.now(), 0];
  showPlaying();
  requestAnimationFrame(frame);
}

function pause() {
  if (!state.playing) return;
  state.playing = false;
  tween(0);
  showPlaying();
  lookAt();
}

function oneStep() {
  pause();
  if (!bench.advance()) ended();
  lookAt();
}

const ENDINGS = { fell: "the body fell", time: "the episode's time is over", full: "this page keeps no more steps", overflow: "the circuit's numbers are not finite any more" };

function ended() {
  pause();
  say(bench.sides.map((side) => {
    const run = bench.runs[side];
    return `${bench.other ? `${letterOf(side)}: ` : ""}${ENDINGS[run.over]} after ${run.steps} steps${run.world.isRewarded ? `, return ${figure(run.return)}` : ""}`;
  }).join("; "));
}

// The same episode once more, with every change at its step.
function replay() {
  say("");
  bench.restart(bench.experiment);
  restarted();
}

function restart() {
  say("");
  bench.again(Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.floor(+byId("seed").value) || 0)));
  restarted();
}

// After a new episode has begun.
function restarted() {
  byId("seed").value = bench.experiment.seed;
  owed = 0;
  redoPapers();
  lookAt();
}

// Shows the circuit of a side, "a" or "b".
function showSide(side) {
  state.side = side;
  state.activity = bench.run.activity;
  showWiring(bench.run.exhibit.wiring);
  Object.assign(state, { chosen: [], step: Math.max(0, state.activity.steps - 1) });
  parts.wiring.rewire();
  parts.chosen.rewire();
  parts.world.rewire();
  parts.tools.fillers.clear();
  showSides(); // what was hidden has no width
  resizeViews();
  parts.tools.pick(null);
  state.colouring = byId("colouring").value = likelyColouring();
  showFacts();
  setColouring(state.colouring);
  lookAt();
}

function showFacts() {
  const { activity } = state, { exhibit } = bench.run;
  byId("summary").textContent = `${NEURONS} neurons · ${SYNAPSES.length.toLocaleString("en")} synapses${GAPS.length ? ` · ${GAPS.length} gap junctions` : ""}`;
  byId("facts").replaceChildren(...exhibit.facts.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]));
  byId("gap-legend").hidden = !GAPS.length;
  showCurrentsLegend();
  // Of a task that the page does not know, there is no reward, and of a body on a fixed joint no speed.
  byId("returns-panel").hidden = !returnLines().length;
  if (!bench.run.world.isRewarded) {
    byId("returns-title").textContent = "Speed";
    byId("returns").setAttribute("aria-label", "speed over time");
  }
}

const letterOf = (side) => side.toUpperCase();

function showSides() {
  const two = bench.other !== null;
  byId("sides").hidden = !two;
  const areDifferent = two && bench.run.exhibit !== bench.other.exhibit;
  byId("sides").replaceChildren(...bench.sides.map((side) =>
    button(`${letterOf(side)}${areDifferent ? `: ${bench.runs[side].exhibit.name}` : ""}`, () => showSide(side), {
      "aria-pressed": `${side === state.side}`, title: bench.runs[side].exhibit.name,
    })));
  for (const [side, id] of [["a", "body-name"], ["b", "body-b-name"]]) {
    const run = bench.runs[side];
    byId(id).hidden = !two;
    if (two) byId(id).replaceChildren(element("b", {}, letterOf(side)), run.exhibit.name, element("span", { id: `return-${side}` }));
  }
  byId("body-b-panel").hidden = !two;
  byId("returns-note").textContent = two ? `dashed: ${letterOf(state.side === "a" ? "b" : "a")}` : "";
  byId("beside").value = bench.exhibits.b ?? "";
}

// Puts another circuit beside the first one, or none; a new episode begins.
function putBeside(number) {
  pause();
  const old = bench.experiment;
  bench.put({ a: bench.exhibits.a, b: number });
  const found = new Experiment(bench.vocabulary, old.seed);
  // What was changed in the world and in the first circuit stays.
  old.atReset(old.seed);
  for (const change of old.changes) if (change.side !== "b") found.add(change);
  bench.restart(found);
  showSide(bench.sides.includes(state.side) ? state.side : "a");
  restarted();
}

const returnLines = () => {
  const { other } = bench, also = (name) => other && ((step) => other.series[name].at(step, 0));
  const line = (name, title) => {
    const own = state.activity[name], second = other && other.series[name];
    return {
      name: title, values: (step) => own.at(step, 0), also: also(name),
      low: second ? Math.min(own.low[0], second.low[0]) : own.low[0], high: second ? Math.max(own.high[0], second.high[0]) : own.high[0],
    };
  };
  const { isRewarded, shape } = bench.run.world, speed = line("speeds", "speed in m/s");
  if (isRewarded) return [line("returns", "return so far"), speed, line("rewards", "reward")];
  return shape.forward < 0 ? [] : [speed];
};
const actionLines = () => linesOf("actions", state.activity.actionNames, "executed_actions");

function fillMenus() {
  for (const speed of SPEEDS) byId("speed").append(new Option(`${speed}×`, speed));
  byId("speed").append(new Option("as fast as it can", "fastest"));
  byId("speed").value = 1;
  byId("speed").addEventListener("change", () => { state.speed = byId("speed").value === "fastest" ? FASTEST : +byId("speed").value; });
  for (const size of [100, 200, 500]) byId("window").append(new Option(`${size} steps`, size));
  byId("window").append(new Option("all steps", 0));
  byId("window").value = state.window;
  byId("window").addEventListener("change", () => { state.window = +byId("window").value; drawAll(); });
  byId("colouring").addEventListener("change", () => { setColouring(byId("colouring").value); drawAll(); });
  byId("beside").append(new Option("nothing", ""), ...LAB.exhibits.map(({ name }, k) => new Option(k ? name : `another ${name}`, k)));
  byId("beside").addEventListener("change", () => putBeside(byId("beside").value === "" ? null : +byId("beside").value));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target, key } = event;
  if (["SELECT", "TEXTAREA"].includes(target.tagName) || (target.tagName === "INPUT" && target.id !== "step" && target.type !== "checkbox")) return;
  const far = event.shiftKey ? 10 : 1;
  const acts = {
    Escape: () => { parts.tools.pick(null); clearChosen(); }, ".": oneStep, r: restart, u: () => bench.undo(),
    ArrowLeft: () => lookBack(state.step - far), ArrowRight: () => lookBack(state.step + far),
    Home: () => lookBack(0), End: () => lookBack(state.activity.steps - 1),
  };
  if (key === " " && (target.id === "step" || !["BUTTON", "SUMMARY", "INPUT"].includes(target.tagName))) state.playing ? pause() : play();
  else if (key.toLowerCase() in acts || key in acts) (acts[key] || acts[key.toLowerCase()])();
  else return;
  event.preventDefault();
}

// Opens the experiment of an address. `beside` in it is the number of the circuit beside the first one.
function readLabAddress(hash) {
  const words = hash.slice(1).split("&"), beside = words.find((word) => word.startsWith("beside="));
  const number = beside ? +beside.slice(7) : LAB.exhibits.length > 1 && !hash.slice(1) ? 1 : null;
  const line = words.filter((word) => !word.startsWith("beside=")).join("&");
  if (number !== null && !LAB.exhibits[number]) throw new Error(`there is no circuit ${number} in this laboratory`);
  if (bench.exhibits?.b !== number) bench.put({ a: 0, b: number });
  return line ? Experiment.parse(line, bench.vocabulary) : new Experiment(bench.vocabulary);
}

function openAddress(hash) {
  let found;
  try {
    found = readLabAddress(hash);
    found.changes.forEach((change) => bench.check(change));
    say("");
  } catch (error) {
    say(`the address holds no experiment for this laboratory: ${error.message}`, true);
    if (!bench.exhibits) bench.put({ a: 0, b: null });
    found = new Experiment(bench.vocabulary);
  }
  bench.restart(found);
}

async function start() {
  startTheme();
  fillMenus();
  bench.simulator = await openSimulator(byId("simulator").textContent, byId("wasm").textContent);
  parts.tools = new CircuitTools();
  parts.log = new LogPanel();
  bench.put({ a: 0, b: null });
  state.activity = bench.runs.a.activity;
  showWiring(bench.run.exhibit.wiring);
  const bodies = LAB.exhibits.map(({ body }) => body);
  parts.wiring = new WiringView((edge) => parts.tools.pick(edge), (context, view) => parts.tools.mark(context, view));
  parts.chosen = new ChosenView(lookBack, (neuron) => parts.tools.neuron(neuron));
  parts.body = new BodyView(bodies, "body", () => bench.runs.a?.activity, BODY_HEIGHT);
  parts.otherBody = new BodyView(bodies, "body-b", () => bench.runs.b?.activity, BODY_HEIGHT);
  parts.pushes = bodyViews().map((view) => new PushByHand(view));
  openAddress(location.hash);
  parts.world = new WorldPanel();
  parts.tour = new Tour();
  views.push(parts.body, parts.otherBody, parts.wiring, new RasterView(lookBack), parts.chosen, new ConstantsView(),
    new TraceView(byId("returns"), returnLines, lookBack),
    new TraceView(byId("doing"), actionLines, lookBack, () => state.activity.random), new TraceView(byId("seeing"), seeingLines, lookBack));
  watchViews(() => { resizeViews(); lookAt(state.step); });
  showSide("a");
  restarted();
  for (const id of ["play", "one-step", "restart"]) byId(id).disabled = false;
  byId("play").addEventListener("click", () => state.playing ? pause() : play());
  byId("one-step").addEventListener("click", oneStep);
  byId("restart").addEventListener("click", restart);
  byId("seed").addEventListener("keydown", ({ key }) => { if (key === "Enter") restart(); });
  byId("step").addEventListener("input", () => lookBack(+byId("step").value));
  addEventListener("keydown", onKey, true);
  addEventListener("error", ({ error, message }) => {
    pause();
    say(error?.message || message, true);
  });
  addEventListener("hashchange", (event) => {
    pause();
    openAddress(new URL(event.newURL).hash);
    showSide("a");
    restarted();
  });
  bench.onChange.push(() => { if (!state.playing) drawAll(); });
}
