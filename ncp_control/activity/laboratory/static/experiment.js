// An experiment: a seed and the changes that somebody made at steps of one episode. It replays exactly from its line.

function checkedSeed(seed) {
  if (!isCount(seed)) throw new Error(`a seed is a whole number of at least 0, not ${seed}`);
  return seed;
}

class Experiment {
  // vocabulary: as in ExperimentNames
  constructor(vocabulary, seed = 0) {
    this.names = new ExperimentNames(vocabulary);
    this.seed = checkedSeed(seed);
    this.changes = []; // in the order of their steps; those of one step in the order in which they were added
    this.done = []; // those that can be undone, in the order in which they were added
  }

  // Adds a change { step, side, what, on, value }, which takes effect before its step is taken. Returns it as it is kept.
  add(change) {
    const checked = this.names.checked(change);
    this.insert(checked);
    this.done.push(checked);
    return checked;
  }

  insert(change) {
    let place = this.changes.length;
    while (place && this.changes[place - 1].step > change.step) place--;
    this.changes.splice(place, 0, change);
  }

  // Undoes the change that was added last and returns it, or null if there is none. `step` is the next one to be taken.
  // A change that took part in a step stays, and its reverse follows now; a push that has begun cannot be undone.
  undo(step) {
    while (this.done.length) {
      const last = this.done.pop();
      if (last.step >= step) this.changes.splice(this.changes.indexOf(last), 1);
      else if (last.what === "push") continue;
      else {
        const inOrder = [...this.done].sort((one, other) => one.step - other.step);
        const now = this.conditionAt(step), wanted = Condition.after(this.names, inOrder, step);
        for (const change of wanted.from(now)) this.insert(Object.freeze({ step, ...change }));
      }
      return last;
    }
    return null;
  }

  // A new episode begins: what holds at `step`, by default after all changes, holds in it from the start; pushes go.
  atReset(seed, step = Infinity) {
    this.seed = checkedSeed(seed);
    const now = this.conditionAt(step);
    this.changes = now.from(new Condition(this.names)).map((change) => Object.freeze({ step: 0, ...change }));
    this.done = [...this.changes];
  }

  changesAt(step) {
    return this.changes.filter((change) => change.step === step);
  }

  conditionAt(step) {
    return Condition.after(this.names, this.changes, step);
  }

  // What holds while a step is taken: `world` for World.set, which also takes a circuit's `hidden`; the `pushes`
  // [{ body, force }] that begin with this step; and for each circuit, "a" and "b", what its cell's `tune` takes.
  settingsAt(step) {
    const condition = this.conditionAt(step);
    const pushes = this.changesAt(step).filter(({ what }) => what === "push")
      .map(({ on, value }) => ({ body: on, force: value.length === 2 ? [value[0], 0, value[1]] : [...value] }));
    const found = { world: condition.world(), pushes, a: null, b: null };
    for (const side of this.names.sides.keys()) found[side] = condition.circuit(side);
    return found;
  }

  // The experiment as one line of plain text.
  line() {
    return [`seed=${this.seed}`, ...this.changes.map((change) => changeText(change, this.names.areTwo))].join(" ");
  }

  // The same for the part of an address behind "#".
  address() {
    return this.line().replaceAll(" ", "&");
  }

  // Returns the experiment that a line or an address describes.
  static parse(line, vocabulary) {
    const found = new Experiment(vocabulary);
    let seeds = 0;
    for (const word of wordsOf(line)) {
      try {
        if (!word.startsWith("seed=")) found.add(readChange(word));
        else if (seeds++) throw new Error("a line has one seed");
        else found.seed = checkedSeed(readNumber(word.slice(5)));
      } catch (error) {
        throw new Error(`the word ${word} cannot be used: ${error.message}`);
      }
    }
    return found;
  }

  // All changes of one circuit and of the world in words, such as "command0=0" and "step 120: friction 0.5", with the
  // wiring's own names of the inputs.
  words(side) {
    return this.changes.filter((change) => !change.side || change.side === side)
      .map((change) => `${change.step ? `step ${change.step}: ` : ""}${changeWords(this.names.owned(change))}`);
  }

  // The command line that records the same, as `recordCommand` says it.
  command(side, checkpoint, steps, usual) {
    return recordCommand(this, side, checkpoint, steps, usual);
  }
}
