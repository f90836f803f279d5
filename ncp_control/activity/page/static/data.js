// The recorded rollouts, unpacked, and the state of the page. The numbers of an array arrive as whole numbers between
// each column's least and greatest value, in base64.

const PAGE = JSON.parse(document.getElementById("data").textContent);
const WIRING = PAGE.wiring;
const NEURONS = WIRING.neuronNames.length;
const byId = (id) => document.getElementById(id);

class Series {
  constructor(packed, steps) {
    const text = atob(packed.data);
    const bytes = new Uint8Array(text.length);
    for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
    this.codes = packed.kind === "u1" ? bytes
      : new (packed.kind === "u2" ? Uint16Array : Float32Array)(bytes.buffer);
    this.steps = steps;
    this.columns = packed.columns;
    this.exact = packed.kind === "f4";
    this.missing = packed.kind === "u1" ? 255 : 65535;
    this.log = packed.log;
    this.low = packed.low;
    this.high = packed.high;
    this.quantum = this.exact ? null : packed.low.map((low, c) => (packed.high[c] - low) / (this.missing - 1));
  }

  // The value at a step, or its logarithm if the series holds logarithms; NaN if it was not finite.
  raw(step, column) {
    const code = this.codes[step * this.columns + column];
    if (this.exact) return code;
    return code === this.missing ? NaN : this.low[column] + code * this.quantum[column];
  }

  at(step, column) {
    const value = this.raw(step, column);
    return this.log ? 10 ** value : value;
  }
}

const opened = new Map();

// A rollout is unpacked when it is first shown.
function openActivity(number) {
  if (!opened.has(number)) {
    const packed = PAGE.activities[number];
    const series = {};
    for (const [name, values] of Object.entries(packed.arrays)) series[name] = new Series(values, packed.steps);
    const body = packed.body && {
      ...packed.body,
      ends: new Series(packed.body.ends, packed.steps),
      along: new Series(packed.body.along, packed.steps),
      depth: packed.body.depth && new Series(packed.body.depth, packed.steps),
    };
    opened.set(number, { ...packed, ...series, body, arrays: null });
  }
  return opened.get(number);
}

// Everything that the pictures depend on. The page opens with the last rollout, the one after the longest training.
const newest = PAGE.activities.length - 1;
const state = {
  number: newest, activity: openActivity(newest), step: 0, playing: false, speed: 1, window: 0, held: null,
  colouring: "bounds", chosen: [],
};

// Sensory and other synapses are in one list, where the source -1 - k is input k.
const SYNAPSES = [];
for (const kind of ["sensory", "synapses"]) {
  const { source, target, polarity } = WIRING[kind];
  source.forEach((from, k) => SYNAPSES.push({
    kind, index: k, source: kind === "sensory" ? -1 - from : from, target: target[k], polarity: polarity[k],
  }));
}
const GAPS = WIRING.gaps.map(([a, b], index) => ({ kind: "gaps", index, source: b, target: a, polarity: 0 }));

const nameOf = (node) => node < 0 ? WIRING.inputNames[-1 - node] : WIRING.neuronNames[node];

// NaN if the current is not known.
const currentOf = (synapse) => state.activity[synapse.kind].at(state.step, synapse.index);

// How strong a synapse's current is, from 0 to 1 for a strong one. `unknown` stands for a current that is not known.
function strengthOf(synapse, unknown = 0) {
  const size = Math.abs(currentOf(synapse));
  return Number.isFinite(size) ? Math.min(1, size / (state.activity.strong || 1)) : unknown;
}

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
  const { steps } = state.activity;
  if (!state.window || state.window >= steps) return { from: 0, to: steps - 1 };
  const from = Math.max(0, Math.min(state.step - Math.floor(state.window / 2), steps - 1 - state.window));
  return { from, to: from + state.window };
}

function figure(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return value.toFixed(digits).replace("-", "−");
}

const seconds = (step) => state.activity.dt ? `${(step * state.activity.dt).toFixed(2)} s` : "";
