// What holds at a step of an experiment: all that differs from how it was.
//
// A part that differs has an entry { side, what, on, value }, whose `what` is "held", "factor", "slowness", "hidden" or
// a setting of the world. A part that is as it was has none.

const USUAL_VALUES = { held: null, factor: 1, slowness: 1, hidden: false };

class Condition {
  constructor(names, entries = new Map()) {
    this.names = names;
    this.entries = entries;
  }

  // Of changes that are in order, those until a step.
  static after(names, changes, step) {
    const found = new Condition(names);
    for (const change of changes) if (change.step <= step) found.apply(change);
    return found;
  }

  usual(what) {
    return what in USUAL_VALUES ? USUAL_VALUES[what] : this.names.settings.get(what).usual;
  }

  get(side, what, on) {
    return this.entries.get(JSON.stringify([side, what, on]))?.value ?? this.usual(what);
  }

  set(side, what, on, value) {
    const key = JSON.stringify([side, what, on]);
    if (value === this.usual(what)) this.entries.delete(key);
    else this.entries.set(key, { side, what, on, value });
  }

  apply({ side, what, on, value }) {
    switch (what) {
      case "silence": return this.set(side, "held", on, 0);
      case "hold": return this.set(side, "held", on, value);
      case "free": return this.set(side, "held", on, null);
      case "tau": return this.set(side, "slowness", on, value);
      case "cut": return this.set(side, "factor", on, 0);
      case "mend": return this.set(side, "factor", on, 1);
      case "scale": return this.set(side, "factor", on, value);
      case "flip": return this.set(side, "factor", on, -this.get(side, "factor", on) || 0);
      case "hide": return this.set(side, "hidden", on, true);
      case "show": return this.set(side, "hidden", on, false);
      case "as-it-was": return this.entries.clear();
      case "push": return undefined; // it passes
      default: return this.set("", what, null, value);
    }
  }

  // Returns the changes, without a step, that make this condition from another one.
  from(other) {
    if (!this.entries.size && other.entries.size > 1) return [{ side: "", what: "as-it-was", on: null, value: null }];
    const parts = new Map([...other.entries, ...this.entries]), found = [];
    for (const { side, what, on } of parts.values()) {
      const before = other.get(side, what, on), after = this.get(side, what, on);
      if (before !== after) found.push({ side, on, ...Condition.step(what, before, after) });
    }
    return found;
  }

  // The change of one part from one value to another.
  static step(what, before, after) {
    switch (what) {
      case "held": return after === null ? { what: "free", value: null } : after === 0 ? { what: "silence", value: null } : { what: "hold", value: after };
      case "factor": return after === 0 ? { what: "cut", value: null } : after === 1 ? { what: "mend", value: null }
        : after === -before ? { what: "flip", value: null } : { what: "scale", value: after };
      case "slowness": return { what: "tau", value: after };
      case "hidden": return { what: after ? "hide" : "show", value: null };
      default: return { what, value: after };
    }
  }

  // What `World.set` needs, without the observations that each circuit does not see.
  world() {
    return Object.fromEntries([...this.names.settings.keys()].map((what) => [what, this.get("", what, null)]));
  }

  // What a cell's `tune` needs, and `hidden`: the numbers of the observations that the circuit does not see.
  circuit(side) {
    const { neurons, lists } = this.names.sides.get(side);
    const found = { held: new Map(), constants: new Float64Array(neurons.length).fill(1), hidden: [] };
    for (const kind of Object.keys(lists)) found[kind] = new Float64Array(lists[kind].length).fill(1);
    for (const entry of this.entries.values()) {
      if (entry.side !== side) continue;
      const { what, on, value } = entry;
      if (what === "held") found.held.set(this.names.neuron(side, on), value);
      if (what === "slowness") found.constants[this.names.neuron(side, on)] = value;
      if (what === "hidden") found.hidden.push(this.names.observation(side, on));
      if (what === "factor") {
        const { kind, index } = this.names.link(side, on);
        found[kind][index] = value;
      }
    }
    found.hidden.sort((one, other) => one - other);
    return found;
  }
}
