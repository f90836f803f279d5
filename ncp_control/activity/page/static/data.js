// The recorded rollouts, unpacked, and the state of the page. The numbers of an array arrive as whole numbers between
// each column's least and greatest value, in base64.

const PAGE = JSON.parse(document.getElementById("data").textContent);
showWiring(PAGE.wiring);

class Series {
  constructor(packed, steps) {
    this.codes = unpacked({ type: packed.kind, data: packed.data });
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

  // Whether a column has any finite value.
  known(column) {
    for (let step = 0; step < this.steps; step++) if (Number.isFinite(this.raw(step, column))) return true;
    return false;
  }

  at(step, column) {
    const value = this.raw(step, column);
    return this.log ? 10 ** value : value;
  }
}

const opened = new Map();

// What a model predicted open loop: a row for each step of each continuation, one after the other.
function openContinued(packed) {
  const rows = packed.starts.length * packed.ahead, { body } = packed;
  const open = (values) => new Series(values, rows);
  return {
    ...packed, errors: open(packed.errors), values: open(packed.values),
    body: body && { ends: open(body.ends), middle: open(body.middle) },
  };
}

// A rollout is unpacked when it is first shown.
function openActivity(number) {
  if (!opened.has(number)) {
    const packed = PAGE.activities[number];
    const series = {};
    for (const [name, values] of Object.entries(packed.arrays)) series[name] = new Series(values, packed.steps);
    const along = packed.body && new Series(packed.body.along, packed.steps);
    const body = packed.body && {
      ...packed.body,
      ends: new Series(packed.body.ends, packed.steps),
      along,
      stepped: along,
      depth: packed.body.depth && new Series(packed.body.depth, packed.steps),
    };
    const continued = packed.continued && openContinued(packed.continued);
    opened.set(number, { ...packed, ...series, body, continued, arrays: null });
  }
  return opened.get(number);
}

// Everything that the pictures depend on. The page opens with the last rollout, the one after the longest training.
const newest = PAGE.activities.length - 1;
const state = {
  number: newest, activity: openActivity(newest), step: 0, playing: false, speed: 1, window: 0, held: null,
  colouring: "bounds", chosen: [], run: PAGE.activities[newest].continued?.first || 0,
};
