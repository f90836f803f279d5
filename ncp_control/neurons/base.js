// What all cells have in common: their sizes, held neurons, and factors of synapses and time constants.
//
// A cell of `cell_data` in Python is one object here. `step` leaves the state that it is given as it is; everything
// else that a cell returns is a new array, too. What Python calls unknown is NaN.

// What makes a cell of `cell_data`, by the names of kinds; the script of each kind adds its own.
const CELL_KINDS = {};

function makeCell(data) {
  if (!(data.kind in CELL_KINDS)) throw new Error(`this page cannot run the cell ${data.kind}`);
  return CELL_KINDS[data.kind](data);
}

const logistic = (x) => 1 / (1 + Math.exp(-x));
const softplus = (x) => x > 20 ? x : Math.log1p(Math.exp(x));

// A row of a matrix times a vector, from `from` on.
function dot(weight, from, vector, count) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += weight[from + i] * vector[i];
  return sum;
}

// A linear layer of `layer_data` in Python.
class LinearLayer {
  constructor({ rows, columns, weight, bias }) {
    this.rows = rows;
    this.columns = columns;
    this.weight = unpacked(weight);
    this.bias = bias ? unpacked(bias) : new Float64Array(rows);
  }

  of(values, found = new Float64Array(this.rows)) {
    for (let i = 0; i < this.rows; i++) found[i] = this.bias[i] + dot(this.weight, i * this.columns, values, this.columns);
    return found;
  }
}

// Synapses sorted by target: those into neuron j are start[j] .. start[j + 1].
class EdgeList {
  constructor({ source, target, start }) {
    this.source = unpacked(source);
    this.target = unpacked(target);
    this.start = unpacked(start);
    this.count = this.source.length;
  }
}

// One factor for each of `count` things; 1 where nothing is said.
function factorsOf(given, count, name) {
  if (!given) return new Float64Array(count).fill(1);
  if (given.length !== count) throw new Error(`${name} needs ${count} factors, not ${given.length}`);
  return Float64Array.from(given);
}

// A cell defines `advance(inputs, state, elapsed)`, which returns a new state, `weigh(sensory, synapses, gaps)`, which
// computes its weights anew with these factors, `currents` and `timeConstants`.
class BaseCell {
  constructor(data) {
    this.inputs = data.inputs;
    this.units = data.units;
    this.outputs = data.outputs;
    this.motorStart = data.motor;
    this.stateSize = data.stateSize;
    this.can = data.can;
    this.sensory = new EdgeList(data.sensory);
    this.synapses = new EdgeList(data.synapses);
    this.gapEnds = unpacked(data.gaps);
    this.held = new Map();
    this.slowness = new Float64Array(this.units).fill(1);
  }

  initial() { return this.hold(new Float64Array(this.stateSize)); }

  step(inputs, state, elapsed = 1) { return this.hold(this.advance(inputs, this.begun(state), elapsed)); }

  neurons(state) { return state.slice(0, this.units); }

  motor(state) { return this.neurons(state).slice(this.motorStart, this.motorStart + this.outputs); }

  // Replaces every earlier tuning.
  tune({ held, sensory, synapses, gaps, constants } = {}) {
    const values = new Map(held || []), gapCount = this.gapEnds.length / 2;
    const cuts = [
      factorsOf(sensory, this.sensory.count, "sensory"),
      factorsOf(synapses, this.synapses.count, "synapses"),
      factorsOf(gaps, gapCount, "gaps"),
    ];
    const slowness = factorsOf(constants, this.units, "constants");
    const changed = (factors) => factors.some((factor) => factor !== 1);
    if (this.can.hold && values.size) throw new Error(this.can.hold);
    if (this.can.cut && cuts.some(changed)) throw new Error(this.can.cut);
    if (this.can.constants && changed(slowness)) throw new Error(this.can.constants);
    for (const neuron of values.keys())
      if (!(neuron in this.slowness)) throw new Error(`there is no neuron ${neuron}: the circuit has ${this.units}`);
    if (!slowness.every((factor) => factor > 0)) throw new Error("the factor of a time constant must be above 0");
    this.held = values;
    this.slowness = slowness;
    this.weigh(...cuts);
  }

  // Puts held neurons at their values, in the array that it is given.
  hold(state) {
    for (const [neuron, value] of this.held) state[neuron] = value;
    return state;
  }

  // The state from which a step begins.
  begun(state) { return this.held.size ? this.hold(state.slice()) : state; }

  // The currents of a cell that ignores gap junctions: nothing flows through them.
  withoutGaps(sensory, synapses) { return { sensory, synapses, gaps: new Float64Array(this.gapEnds.length / 2) }; }

  unknownCurrents() {
    const unknown = (count) => new Float64Array(count).fill(NaN);
    return {
      sensory: unknown(this.sensory.count), synapses: unknown(this.synapses.count), gaps: unknown(this.gapEnds.length / 2),
    };
  }
}
