// What stands on the laboratory's bench: one circuit or two, each in a world of its own, and the experiment with them.

const LAB = JSON.parse(byId("data").textContent);

// Everything that the pictures depend on.
const state = {
  activity: null, step: 0, playing: false, speed: 1, window: 100, held: null, colouring: "bounds", chosen: [],
  picked: null, side: "a",
};

const bench = {
  simulator: null,
  runs: {}, // by side, "a" and "b"
  experiment: null,
  onChange: [], // functions that are called after the experiment has changed

  get sides() { return Object.keys(this.runs); },
  get run() { return this.runs[state.side]; },
  get other() { return this.runs[state.side === "a" ? "b" : "a"] || null; },
  // The next step to be taken. Runs take their steps together until one is over.
  get next() { return Math.max(...Object.values(this.runs).map(({ steps }) => steps)); },
  get isOver() { return Object.values(this.runs).every(({ over }) => over); },

  // Puts circuits on the bench. exhibits: { a: number in the page's data, b: number or null }
  put(exhibits) {
    const old = this.runs;
    this.runs = {};
    this.exhibits = exhibits;
    for (const [side, number] of Object.entries(exhibits)) {
      if (number === null) continue;
      const kept = old[side];
      this.runs[side] = kept && kept.exhibit === LAB.exhibits[number] ? kept : new Run(LAB.exhibits[number], this.simulator);
    }
    for (const [side, run] of Object.entries(old)) if (this.runs[side] !== run) run.world.delete();
    if (!this.runs[state.side]) state.side = "a";
    this.vocabulary = {
      sides: Object.fromEntries(this.sides.map((side) => [side, circuitNames(JSON.parse(this.runs[side].exhibit.recording.wiring), this.runs[side].exhibit.wiring.inputNames)])),
      bodies: this.runs.a.world.bodies,
      observations: Object.fromEntries(this.sides.map((side) => [side, this.runs[side].world.observationNames])),
      settings: Object.fromEntries(Object.entries(SETTINGS).map(([name, { low, high, usual }]) => [name, { low, high, usual: name === "random" ? this.runs.a.world.share : usual }])),
    };
  },

  // A new episode begins with an experiment, and its first step is taken, so that there is something to see.
  restart(experiment) {
    this.experiment = experiment;
    // The first observation already depends on the settings.
    this.tune(experiment.settingsAt(0));
    for (const run of Object.values(this.runs)) run.reset(experiment.seed);
    this.advance();
    this.changed();
  },

  // Takes a step with every circuit whose episode is not over. Returns whether one did.
  advance() {
    if (this.isOver) return false;
    const step = this.next;
    if (step === 0 || this.experiment.changesAt(step).length) {
      const settings = this.experiment.settingsAt(step);
      if (step) this.tune(settings);
      for (const run of Object.values(this.runs))
        for (const { body, force } of settings.pushes) run.world.push(body, force);
    }
    let moved = false;
    for (const run of Object.values(this.runs)) moved = run.step() || moved;
    return moved;
  },

  tune(settings) {
    for (const [side, run] of Object.entries(this.runs)) run.tune(settings[side], { ...settings.world, hidden: settings[side].hidden });
  },

  // Adds a change of the circuit that is shown, or of the world, from the next step on.
  change(what, on = null, value = null) {
    this.add({ what, on, value });
  },

  add(change) {
    const full = { step: this.next, side: isOfCircuit(change.what) ? state.side : "", on: null, value: null, ...change };
    try {
      this.check(full);
      this.experiment.add(full);
      say("");
    } catch (error) {
      say(error.message, true);
    }
    this.changed();
  },

  // Raises an error with a sentence for a change that a circuit cannot have.
  check({ side, what }) {
    const can = this.runs[side || "a"]?.controller.cell.can, kind = CHANGE_KINDS.get(what)?.on;
    const reason = kind === "link" ? can.cut : what === "tau" ? can.constants : kind === "neuron" ? can.hold : null;
    if (reason && !["mend", "free"].includes(what)) throw new Error(reason);
  },

  undo() {
    const undone = this.experiment.undo(this.next);
    say(undone ? `undone: ${changeWords(undone)}` : "there is nothing to undo");
    this.changed();
  },

  // Runs a line from its first step.
  runLine(line) {
    const found = Experiment.parse(line, this.vocabulary);
    found.changes.forEach((change) => this.check(change));
    this.restart(found);
  },

  // Begins an episode with what holds now; or with the whole line, if changes of it are still to come.
  again(seed) {
    if (this.experiment.changes.some(({ step }) => step > 0 && step >= this.next)) this.experiment.seed = seed;
    else this.experiment.atReset(seed);
    this.restart(this.experiment);
  },

  changed() { for (const after of this.onChange) after(); },
};

// Without marks that a browser would obey, such as those that turn the order of writing.
const plainText = (words) => words.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "�");

// Tells something that has happened, to a screen reader, too.
function say(words, isBad = false) {
  byId("status").textContent = plainText(words);
  byId("status").classList.toggle("bad", isBad);
}
