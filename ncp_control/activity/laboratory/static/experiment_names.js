// What the changes of an experiment may name: neurons, synapses, gap junctions, observations, bodies and settings.

// Of what each kind of change is, and what its value is. The world's settings have a kind each.
const CHANGE_KINDS = new Map(Object.entries({
  silence: { on: "neuron" }, hold: { on: "neuron", value: "state" }, free: { on: "neuron" },
  tau: { on: "neuron", value: "slowness" },
  cut: { on: "link" }, flip: { on: "link" }, mend: { on: "link" }, scale: { on: "link", value: "factor" },
  hide: { on: "observation" }, show: { on: "observation" },
  push: { on: "body", value: "force" },
  "as-it-was": {},
}));
const WORLD_SETTINGS = ["random", "noise", "dropout", "delay", "friction", "gravity", "mass"];
for (const setting of WORLD_SETTINGS) CHANGE_KINDS.set(setting, { value: "setting" });

// Whether a kind of change is one of a circuit, and not of the world.
const isOfCircuit = (what) => ["neuron", "link", "observation"].includes(CHANGE_KINDS.get(what)?.on);

const MOST_TIMES = 1000, MOST_NEWTONS = 100000;
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

// The names of a circuit: `neurons`, `inputs`, and pairs of names in `sensory`, `synapses` and `gaps`, each in the order
// of the wiring, which is given as the JSON value of `Wiring.to_json`. Inputs may be shown by other names, such as those
// of the observations that they follow, unless two things would then have one name.
function circuitNames(wiring, shownInputs = wiring.input_names) {
  const { input_names: own, neuron_names: neurons } = wiring;
  const distinct = new Set([...shownInputs, ...neurons]).size === own.length + neurons.length;
  const inputs = distinct && shownInputs.length === own.length ? shownInputs : own;
  let start = 0;
  return {
    neurons, inputs, ownInputs: own,
    layers: wiring.layers.map(([name, size]) => ({ name, start, stop: start += size })),
    sensory: wiring.sensory.map(([source, target]) => [inputs[source], neurons[target]]),
    synapses: wiring.synapses.map(([source, target]) => [neurons[source], neurons[target]]),
    gaps: wiring.gap_junctions.map(([one, other]) => [neurons[one], neurons[other]]),
  };
}

// A link is a synapse, [source, "->", target], or a gap junction, [one neuron, "--", the other].
class ExperimentNames {
  // vocabulary: { sides: { a: a circuit's names, b: another's or null }, bodies: [names], observations: { a: [names], b },
  // settings: { random: { low, high, usual }, ... } }
  constructor(vocabulary) {
    this.bodies = vocabulary.bodies || [];
    this.settings = new Map(WORLD_SETTINGS.filter((name) => vocabulary.settings?.[name]).map((name) => [name, vocabulary.settings[name]]));
    this.sides = new Map();
    for (const side of ["a", "b"]) {
      const circuit = vocabulary.sides[side];
      if (!circuit) continue;
      const links = new Map(), lists = {};
      for (const [kind, sign] of [["sensory", "->"], ["synapses", "->"], ["gaps", "--"]]) {
        lists[kind] = (circuit[kind] || []).map(([source, target]) => [source, sign, target]);
        lists[kind].forEach((link, index) => links.set(linkText(link), { kind, index, link }));
      }
      this.sides.set(side, {
        neurons: circuit.neurons, numbers: new Map(circuit.neurons.map((name, number) => [name, number])), links, lists,
        observations: vocabulary.observations?.[side] || [],
        ownInputs: new Map((circuit.inputs || []).map((name, k) => [name, (circuit.ownInputs || circuit.inputs)[k]])),
      });
    }
  }

  get areTwo() {
    return this.sides.size > 1;
  }

  neuron(side, name) {
    return this.sides.get(side).numbers.get(name);
  }

  // { kind, index, link } of a link.
  link(side, link) {
    return this.sides.get(side).links.get(linkText(link));
  }

  // A link with the wiring's own name of its input.
  ownLink(side, link) {
    const [source, sign, target] = link, { links, ownInputs } = this.sides.get(side);
    return links.get(linkText(link)).kind === "sensory" ? [ownInputs.get(source) ?? source, sign, target] : link;
  }

  // A change with the wiring's own names.
  owned(change) {
    return CHANGE_KINDS.get(change.what).on === "link" ? { ...change, on: this.ownLink(change.side, change.on) } : change;
  }

  observation(side, name) {
    return this.sides.get(side).observations.indexOf(name);
  }

  // Returns a change whose names exist and whose value is in its range, as it is kept. A neuron, an observation or a
  // body may be given by its number, and a link by its text or as { kind, index }.
  checked({ step, side, what, on = null, value = null }) {
    const kind = CHANGE_KINDS.get(what);
    if (!kind) throw new Error(`there is no change called ${what}: it is one of ${[...CHANGE_KINDS.keys()].join(", ")}`);
    if (!isCount(step)) throw new Error(`a step is a whole number of at least 0, not ${step}`);
    const ofCircuit = isOfCircuit(what);
    const where = ofCircuit ? this.checkedSide(side, what) : "";
    if (!ofCircuit && side) throw new Error(`${what} changes the world and not one circuit: leave out ${side}/`);
    const found = { step, side: where, what, on: null, value: null };
    if (kind.on) found.on = this.checkedName(where, kind.on, on);
    else if (on !== null && on !== "") throw new Error(`${what} takes no name`);
    if (kind.value) found.value = this.checkedValue(what, kind.value, value);
    else if (value !== null) throw new Error(`${what} takes no value`);
    return Object.freeze(found);
  }

  checkedSide(side, what) {
    const chosen = side || (this.areTwo ? "" : "a");
    if (!chosen) throw new Error(`there are two circuits: write a/${what} or b/${what}`);
    if (!this.sides.has(chosen)) throw new Error(`there is only one circuit here, and no circuit ${chosen}`);
    return chosen;
  }

  checkedName(side, kind, on) {
    const here = this.areTwo ? `circuit ${side}` : "this circuit";
    if (kind === "link") return this.checkedLink(side, on, here);
    const names = kind === "neuron" ? this.sides.get(side).neurons : kind === "body" ? this.bodies : this.sides.get(side).observations;
    const name = typeof on === "number" ? names[on] : on;
    const exists = kind === "neuron" ? this.neuron(side, name) !== undefined : names.includes(name);
    if (!exists) throw new Error(`${kind === "neuron" ? here : "this world"} has no ${kind} ${name}`);
    return name;
  }

  checkedLink(side, on, here) {
    const known = this.sides.get(side);
    const given = typeof on === "string" ? readLink(on) : Array.isArray(on) ? on : known.lists[on?.kind]?.[on?.index];
    if (!given) throw new Error(`a synapse is written source->target, and a gap junction one--other, not ${JSON.stringify(on)}`);
    const [source, sign, target] = given;
    const found = known.links.get(linkText(given)) || (sign === "--" && known.links.get(linkText([target, sign, source])));
    if (found) return Object.freeze([...found.link]);
    const starts = sign === "->" && this.neuron(side, source) === undefined && ![...known.links.values()].some(({ link }) => link[0] === source && link[1] === "->");
    if (starts) throw new Error(`${here} has no neuron ${source}, and no input of this name with a synapse`);
    for (const name of sign === "->" ? [target] : [source, target]) this.checkedName(side, "neuron", name);
    throw new Error(`${here} has no ${sign === "->" ? "synapse" : "gap junction"} ${source}${sign}${target}`);
  }

  checkedValue(what, kind, value) {
    if (kind === "force") return this.checkedForce(value);
    if (typeof value !== "number" || !Number.isFinite(value)) throw new Error(`${what} needs a number, and ${value} is none`);
    const between = (low, high) => {
      if (value < low || value > high) throw new Error(`${what} takes a number from ${low} to ${high}, not ${value}`);
    };
    if (kind === "factor") between(-MOST_TIMES, MOST_TIMES);
    if (kind === "slowness") between(1 / MOST_TIMES, MOST_TIMES);
    if (kind === "setting") {
      const setting = this.settings.get(what);
      if (!setting) throw new Error(`this world has no setting ${what}`);
      between(setting.low, setting.high);
      if (what === "delay" && !isCount(value)) throw new Error(`delay takes a whole number of steps, not ${value}`);
    }
    return value || 0; // no -0, which a line could not tell from 0
  }

  checkedForce(value) {
    const force = Array.from(value || [], (part) => part === 0 ? 0 : part);
    if (![2, 3].includes(force.length) || !force.every((part) => typeof part === "number" && Math.abs(part) <= MOST_NEWTONS))
      throw new Error(`push takes the force along x and z, or along x, y and z, each from -${MOST_NEWTONS} to ${MOST_NEWTONS} N, not ${value}`);
    return Object.freeze(force);
  }
}
