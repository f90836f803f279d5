// The circuit that is shown, and the numbers of the present step that the pictures need. `state` says which rollout and
// which step are shown; each page has its own.

const byId = (id) => document.getElementById(id);

let WIRING, NEURONS, SYNAPSES, GAPS;

// Sensory and other synapses are in one list, where the source -1 - k is input k.
function showWiring(wiring) {
  WIRING = wiring;
  NEURONS = wiring.neuronNames.length;
  SYNAPSES = [];
  for (const kind of ["sensory", "synapses"]) {
    const { source, target } = wiring[kind];
    source.forEach((from, k) => SYNAPSES.push({
      kind, index: k, source: kind === "sensory" ? -1 - from : from, target: target[k],
    }));
  }
  GAPS = wiring.gaps.map(([a, b], index) => ({ kind: "gaps", index, source: b, target: a }));
}

const nameOf = (node) => node < 0 ? WIRING.inputNames[-1 - node] : WIRING.neuronNames[node];

// NaN if the current is not known.
const currentOf = (synapse) => state.activity[synapse.kind].at(state.step, synapse.index);

// How strong a synapse's current is, from 0 to 1 for a strong one. `unknown` stands for a current that is not known.
function strengthOf(synapse, unknown = 0) {
  const size = Math.abs(currentOf(synapse));
  return Number.isFinite(size) ? Math.min(1, size / (state.activity.strong || 1)) : unknown;
}

// What a synapse does to its target now, in words; the polarity in the wiring is only the one that it was made with.
function effectOf(synapse) {
  if (synapse.kind === "gaps") return "gap junction";
  const current = currentOf(synapse);
  return current > 0 ? "pushes up" : current < 0 ? "pushes down" : "";
}

const colourOfEffect = (effect) => ({ "pushes up": theme.raises, "pushes down": theme.lowers, "gap junction": theme.gap })[effect] || theme.muted;

// The states between which a neuron's colour changes: its bounds, or its least and greatest recorded state.
function rangeOf(neuron) {
  const { bounds, neurons } = state.activity;
  const low = bounds.low[neuron], high = bounds.high[neuron];
  if (state.colouring === "bounds" && low !== null && high !== null && high > low) return [low, high];
  return [neurons.low[neuron], neurons.high[neuron]];
}

// Where a node's value lies in its range, from 0 to 1.
function fractionOf(node, step = state.step) {
  const series = node < 0 ? state.activity.inputs : state.activity.neurons;
  const column = node < 0 ? -1 - node : node;
  const [low, high] = node < 0 ? [series.low[column], series.high[column]] : rangeOf(node);
  const value = series.at(step, column);
  return high > low ? (value - low) / (high - low) : Number.isFinite(value) ? 0.5 : NaN;
}

// The steps that raster and traces show: all, or some around the present one. They do not move during a drag.
function shown() {
  if (state.held) return state.held;
  const { steps, live } = state.activity;
  if (live) {
    // The newest step is at the right end. There is room for as many steps before the first ones are there.
    const count = Math.max(state.window || steps, 100), from = Math.max(0, Math.min(steps - count, state.step));
    return { from, to: from + count - 1 };
  }
  if (!state.window || state.window >= steps) return { from: 0, to: steps - 1 };
  const from = Math.max(0, Math.min(state.step - Math.floor(state.window / 2), steps - 1 - state.window));
  return { from, to: from + state.window };
}

// Whether a picture of these steps stays as it is until another rollout is shown, but for the cursor.
const isWhole = ({ from, to }) => !state.activity.live && to - from >= state.activity.steps - 1;

function figure(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return value.toFixed(digits).replace("-", "−");
}

const seconds = (step) => state.activity.dt ? `${(step * state.activity.dt).toFixed(2)} s` : "";
