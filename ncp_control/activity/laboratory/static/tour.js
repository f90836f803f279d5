// The guided tour: one experiment after the other, with words for somebody who sees a circuit for the first time.

const AHEAD = 30; // steps before the first change at which an experiment is shown
const LOOKS = 200; // milliseconds between two looks at whether a part has ended

class Tour {
  constructor() {
    [this.steps, this.number, this.looking] = [[], 0, 0];
    byId("tour-start").addEventListener("click", () => this.open());
  }

  get step() { return this.steps[this.number]; }

  // Whether the experiment on the bench is this step's and nobody has changed it.
  get isOwn() { return !bench.other && bench.experiment.line() === this.line; }

  get end() { return this.step.measure.at(-1).to; }

  get isDone() { return bench.isOver || bench.next >= this.end; }

  open() {
    if (byId("tour-panel").hidden) this.before = { line: bench.experiment.line(), beside: bench.exhibits.b };
    this.clear();
    // The tour chooses from an episode without a change.
    bench.restart(new Experiment(bench.vocabulary));
    this.forward(LONGEST_TOUR);
    this.steps = tourSteps(bench.runs.a, bench.vocabulary);
    this.start(bench.experiment.line());
    byId("tour-panel").hidden = false;
    this.show(0);
  }

  // The tour has the first circuit, alone.
  clear() {
    pause();
    if (bench.other) putBeside(null);
  }

  // Begins an episode with an experiment of the tour.
  start(line) {
    this.line = line;
    bench.runLine(line);
    restarted();
  }

  // What was there before the tour comes back, unless somebody has begun something new.
  close() {
    this.leave();
    byId("tour-panel").hidden = true;
    byId("tour-start").focus();
    if (!this.isOwn) return;
    pause();
    if (this.before.beside !== bench.exhibits.b) putBeside(this.before.beside);
    bench.runLine(this.before.line);
    restarted();
  }

  leave() {
    clearInterval(this.looking);
    for (const id of this.step.look) byId(id).style.outline = "";
  }

  show(number) {
    this.leave();
    this.number = number;
    const { title, text, look, line } = this.step, count = this.steps.length;
    for (const id of look) byId(id).style.outline = "3px solid var(--accent)";
    const heading = element("h2", { id: "tour-title", tabindex: "-1" }, `${number + 1} of ${count}: ${title}`);
    this.results = element("div", { "aria-live": "polite", style: "flex: 1 1 24em" });
    this.shown = null;
    const buttons = [
      line && button("Try it", () => this.run()), line && button("Show the result at once", () => this.finish()),
      number > 0 && button("Back", () => this.show(number - 1)),
      number < count - 1 && button("Next", () => this.show(number + 1)),
      button("End the tour", () => this.close()),
    ].filter(Boolean);
    const words = element("div", { style: "flex: 2 1 30em" }, ...text.map((part) => element("p", {}, part)));
    byId("tour-panel").replaceChildren(heading, element("div", { style: "display: flex; flex-wrap: wrap; gap: 0 32px" }, words, this.results),
      element("div", { class: "buttons" }, ...buttons));
    heading.focus();
  }

  // Starts the experiment, and plays it from shortly before its first change.
  run() {
    this.begin();
    this.forward(this.step.measure[0].to - (this.step.measure.length > 1 ? AHEAD : this.end));
    lookAt();
    this.looking = setInterval(() => this.look(), LOOKS);
    play();
  }

  // Takes the experiment to its end without drawing it.
  finish() {
    if (!this.isOwn || this.line !== this.step.line || this.isDone) this.begin();
    pause();
    this.forward(this.end);
    lookAt();
    this.look();
  }

  begin() {
    const { line, neuron, synapse } = this.step;
    clearInterval(this.looking);
    this.clear();
    this.start(line);
    this.shown = null;
    if (neuron !== undefined && !state.chosen.includes(neuron)) toggle(neuron);
    if (synapse !== undefined) parts.tools.pick(SYNAPSES.find(({ kind, index }) => kind === "synapses" && index === synapse));
    this.tell();
  }

  forward(step) {
    while (bench.next < step && bench.advance());
  }

  look() {
    if (!this.isOwn || this.line !== this.step.line) {
      clearInterval(this.looking);
      this.results.replaceChildren(element("p", {}, "You have changed the experiment. Go on with it, or press “Try it” to begin again."));
      return;
    }
    this.tell();
    if (!this.isDone) return;
    clearInterval(this.looking);
    pause();
  }

  // Shows the parts that have ended, and the one that is on.
  tell() {
    const run = bench.runs.a, { measure } = this.step, found = tourResults(run, measure);
    const isFull = (steps, k) => steps === measure[k].to - measure[k].from;
    const items = found.filter(({ steps }, k) => run.over || isFull(steps, k)).map(({ words, steps, mean }, k) => {
      const change = k && found[0].mean > 0 && mean >= 0 ? `, ${percentOf(mean / found[0].mean)} of what it was` : "";
      const measured = run.world.isRewarded ? `mean reward ${figure(mean)} a step` : `the actions change by ${figure(mean)} a step`;
      return `${words}: ${measured}${change}${isFull(steps, k) ? "" : `, for ${steps} steps`}`;
    });
    const now = measure.findLast(({ from }) => from <= run.steps);
    if (run.over === "fell") items.push(`then it fell, at step ${run.steps}`);
    else if (!run.over && items.length < measure.length) items.push(`now: ${now ? now.words : "the body gets going"} …`);
    const text = items.join("\n");
    if (text === this.shown) return;
    this.shown = text;
    this.results.replaceChildren(element("ul", {}, ...items.map((words) => element("li", {}, words))));
  }
}

const percentOf = (share) => `${Math.round(100 * share)}\u00a0%`;
