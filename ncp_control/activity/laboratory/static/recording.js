// The run as a file that `ncp-control view` and `Activity.load` of Python read.

// Names in a recording, and the names of the series of a run.
const RECORDED_SERIES = {
  observations: "observations", inputs: "inputs", neurons: "neurons", time_constants: "constants",
  sensory_currents: "sensory", currents: "synapses", gap_currents: "gaps", outputs: "outputs",
  actions: "actions", executed_actions: "executed", states: "states",
};
const RECORDED_NUMBERS = { rewards: "rewards", is_random: "random", elapsed: "elapsed" };

// Returns the file's bytes.
//
// run: { world, steps, series, starts }; `starts` are the steps at which episodes begin
// facts: of Python's `recording_facts`
// said: { seeds: of the episodes' resets, silenced: the changes in words, note: what else the file shall say }
function recordingOf(run, facts, { seeds = [], silenced = [], note = {} } = {}) {
  const { steps, series, world } = run, geometry = world?.geometry, arrays = {};
  if (!steps) throw new Error("there is nothing to record yet: let the body take a step first");
  const rows = (name, ...shape) => ({ shape: [steps, ...shape], data: series[name].taken() });
  for (const [name, own] of Object.entries(RECORDED_SERIES)) if (series[own]) arrays[name] = rows(own, series[own].columns);
  for (const [name, own] of Object.entries(RECORDED_NUMBERS)) if (series[own]) arrays[name] = rows(own);
  // As in `record`: a cell without a use for the time says nothing about one that is always 1.
  if (!facts.uses_elapsed && arrays.elapsed?.data.every((value) => value === 1)) delete arrays.elapsed;
  if (arrays.is_random) arrays.is_random.data = Uint8Array.from(arrays.is_random.data, (value) => value ? 1 : 0);
  const starts = new Uint8Array(steps);
  for (const step of run.starts) if (step < steps) starts[step] = 1;
  arrays.episode_starts = { shape: [steps], data: starts };
  for (const [name, own] of [["state_bounds", "neurons"], ["time_constant_bounds", "constants"]]) {
    const { columns } = series[own], [low, high] = facts[name].map((bound) => Float32Array.from(unpacked(bound)));
    widen(low, high, series[own].taken());
    arrays[name] = { shape: [2, columns], data: Float32Array.of(...low, ...high) };
  }
  let body = null;
  if (geometry && series.ends?.columns) {
    const count = series.ends.columns / 4, pieces = series.places.columns / 7;
    body = { seen_from: geometry.seenFrom, flat: geometry.flat, ground: geometry.ground ?? null };
    arrays.body_ends = rows("ends", count, 2, 2);
    arrays.body_places = rows("places", pieces, 7);
    arrays.body_radii = { shape: [count], data: Float32Array.from(geometry.radii) };
    arrays.body_shapes = { shape: [pieces, 8], data: Float32Array.from([...geometry.shapes].flatMap((value) => typeof value === "number" ? value : [...value])) };
  }
  const about = { ...facts.about, seeds, silenced, body, note: { ...facts.about.note, ...note } };
  return npzBytes({ about: JSON.stringify(about), wiring: facts.wiring, ...arrays });
}

// Widens bounds so that they hold the run: a neuron that is held, and one that is slower, may leave what the circuit by
// itself can do.
function widen(low, high, values) {
  const count = low.length;
  for (let k = 0; k < values.length; k++) {
    const value = values[k];
    if (value < low[k % count]) low[k % count] = value;
    if (value > high[k % count]) high[k % count] = value;
  }
}
