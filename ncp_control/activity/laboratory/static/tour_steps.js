// The experiments of the guided tour, for any circuit and any body: what is changed is chosen from a run of the circuit.

// In steps: how long the body has to get going, and how long each part of an experiment is.
const TOUR_TIMES = { warmUp: 100, each: 150 };
const MOST_PARTS = 4;
const LONGEST_TOUR = TOUR_TIMES.warmUp + MOST_PARTS * TOUR_TIMES.each;

// Means of the columns of a series, of their sizes by default; NaN where they are not known.
function means(series, of = Math.abs) {
  const { columns } = series, values = series.taken(), sums = new Float64Array(columns);
  values.forEach((value, k) => { sums[k % columns] += of(value); });
  return sums.map((sum) => sum * columns / values.length);
}

const strongestOf = (sizes) => sizes.reduce((best, size, k) => size > (sizes[best] ?? -1) ? k : best, 0);

// What the tour changes, by number: the neuron that drives others most, the synapse between two neurons that carries
// most, and the sense that drives most. If the currents are not known, neurons count by how much they move.
function tourChoices({ series, exhibit, world }) {
  const { wiring } = exhibit, { source, target } = wiring.synapses;
  const known = means(series.synapses), isKnown = known.some((size) => size > 0);
  const sizes = isKnown ? known.map((size) => size || 0)
    : Float64Array.from(source, (from) => series.neurons.high[from] - series.neurons.low[from]);
  const between = sizes.map((size, k) => source[k] === target[k] ? -1 : size);
  const drives = new Float64Array(wiring.neuronNames.length);
  between.forEach((size, k) => { drives[source[k]] += Math.max(0, size); });
  // A neuron that moves a joint by itself is no good example, if there are others.
  const layer = wiring.layers.find(({ name }) => name === "command") || wiring.layers.find(({ name }) => name.startsWith("inter")) || wiring.layers[0];
  const inLayer = drives.map((size, n) => n >= layer.start && n < layer.stop ? size : -1);
  const senses = new Float64Array(world.observationNames.length), sensory = means(series.sensory);
  wiring.sensory.source.forEach((from, k) => { if (from < senses.length) senses[from] += sensory[k] || 0; });
  return { isKnown, layer: layer.name, neuron: strongestOf(inLayer), synapse: between.length ? strongestOf(between) : null, sense: strongestOf(senses) };
}

// Returns the steps of the tour: { title, text: paragraphs, look: ids of panels, neuron and synapse: what is chosen, line,
// measure: [{ words, from, to }] }. `line` is the experiment, and `measure` its parts, which are compared; a step
// without a line has only words.
//
// run: one that took up to LONGEST_TOUR steps without a change
// vocabulary: of its experiments
function tourSteps(run, vocabulary) {
  const { exhibit, world } = run, { can } = run.controller.cell, { wiring, body } = exhibit;
  const choice = tourChoices(run), sense = world.observationNames[choice.sense], part = world.bodies[0];
  const neuron = vocabulary.sides.a.neurons[choice.neuron], pair = vocabulary.sides.a.synapses[choice.synapse];
  const link = pair && [pair[0], "->", pair[1]], synapse = link && plainLink(link);
  const up = means(run.series.synapses, Number)[choice.synapse] < 0 ? ["down", "up"] : ["up", "down"];
  const weight = Number((body.weight || 0).toPrecision(3)), slips = !body.above && body.ground !== null;
  const falls = run.over === "fell" ? ` Unchanged, this body falls after ${run.steps} steps, so the experiments are short.` : "";
  const circuit = { side: "a" }, reason = (why) => why ? `Here there is nothing to try, because ${why}.` : null;
  const steps = [{
    title: "What you see",
    text: [
      `The circuit moves the body live, in this page. Each circle of the wiring is one of its ${wiring.neuronNames.length} neurons. A neuron has one number that changes, its state, and its colour shows it: from dark, for low, to yellow, for high.`,
      `The ${world.observationNames.length} senses come in at the first column, and the neurons of the last one drive the ${world.actionNames.length === 1 ? "motor" : `${world.actionNames.length} motors`}. A line is a synapse, through which one neuron acts on another. Blue pushes it up and orange pushes it down; a wide line does more at this moment.`,
      `${world.isRewarded ? "The reward says how well the body does what it was trained for."
        : "This page does not know the reward, so the tour measures how much the actions change from one step to the next."} Press “Try it” and watch. Nothing is changed yet.${falls}`,
    ],
    look: ["wiring-panel", "bodies-panel"], parts: [],
  }, {
    title: "Silence a neuron",
    text: [
      `What is a neuron for? Switch it off and see. ${choice.isKnown ? `Of the ${choice.layer} neurons, ${neuron} drives others most` : `The currents of this circuit are not known, but ${neuron} moves much and has many synapses`}. Its state is held at 0, whatever other neurons tell it, and later let go.`,
      "With any other neuron it goes like this: click it in the wiring and press “Silence”.",
    ],
    look: ["wiring-panel", "chosen-panel"], neuron: choice.neuron, why: can.hold,
    parts: [{ words: `${neuron} is silent`, changes: [{ ...circuit, what: "silence", on: neuron }] }],
  }, {
    title: "Cut the strongest synapse, then flip it",
    text: [
      link && `${choice.isKnown ? "The synapse that carries most is" : "One synapse of a neuron that moves much is"} ${synapse}${choice.isKnown ? `, which mostly pushes ${link[2]} ${up[0]}` : ""}. First it is cut and carries nothing. Then it is flipped: it carries as much as before, but pushes ${choice.isKnown ? `${link[2]} ${up[1]}` : "the other way"}.`,
      "A circuit often bears a synapse that is lost better than one that says the opposite. Click other lines in the wiring to cut and to flip them.",
    ].filter(Boolean),
    look: ["wiring-panel", "returns-panel"], synapse: choice.synapse, why: can.cut || (link ? null : "it has no synapse between two neurons"),
    parts: [
      { words: `${synapse} is cut`, changes: [{ ...circuit, what: "cut", on: link }] },
      { words: `${synapse} is flipped`, changes: [{ ...circuit, what: "mend", on: link }, { ...circuit, what: "flip", on: link }] },
    ],
  }, {
    title: "Take away a sense, then lose observations",
    text: [
      `${choice.isKnown ? "The sense that drives the circuit most" : "One sense"} is “${sense}”. First it is taken away: the circuit sees its mean, always the same. Then it is back, but at one step in five, by chance, the circuit sees only zeros.`,
      "A circuit can bridge such gaps if its neurons still hold what was before; not every one does. In “The world” you can take away any sense.",
    ],
    look: ["world-panel", "seeing-panel"],
    parts: [
      { words: `without ${sense}`, changes: [{ ...circuit, what: "hide", on: sense }] },
      { words: "one observation in five is lost", changes: [{ ...circuit, what: "show", on: sense }, { what: "dropout", value: 0.2 }] },
    ],
  }, {
    title: slips ? "Push it, then make the ground slippery" : "Push it, then make it heavy",
    text: [
      `For four steps a force as large as the body's weight pushes the ${part} backwards. Does it catch itself? ${slips ? "Later only a fifth of the friction is left, as on ice." : `Later the ${part} has twice its mass.`}`,
      "You can push with the pointer: drag a part of the body, and the arrow shows how hard.",
    ],
    look: ["bodies-panel", "world-panel"], why: part && weight ? null : "nothing of this body can be pushed",
    parts: [
      { words: `the ${part} is pushed`, changes: [{ what: "push", on: part, value: body.above ? [-weight, 0, 0] : [-weight, 0] }] },
      { words: slips ? "a fifth of the friction" : "twice the mass", changes: [slips ? { what: "friction", value: 0.2 } : { what: "mass", value: 2 }] },
    ],
  }];
  return steps.map(({ parts, why = null, ...step }) => why ? { ...step, text: [...step.text, reason(why)], line: null, measure: [] }
    : { ...step, ...tourExperiment(parts, run.steps, vocabulary) });
}

// Returns the line of an experiment, which ends as it was, and the parts that are measured. In an episode that is shorter
// than the tour would need, all is shorter. What is as it was again is measured later, when the body had time to get going.
function tourExperiment(parts, steps, vocabulary) {
  const all = parts.length ? [...parts, { words: "as it was again", changes: [{ what: "as-it-was" }] }] : [];
  const made = new Experiment(vocabulary), { warmUp, each } = TOUR_TIMES;
  const share = Math.min(1, steps / (warmUp + each * (all.length + 1)));
  const length = Math.max(1, Math.floor(share * each)), measure = [{ words: "as it was", from: Math.floor(share * warmUp) }];
  measure[0].to = measure[0].from + length;
  for (const { words, changes } of all) {
    const from = measure.at(-1).to;
    for (const change of changes) made.add({ step: from, ...change });
    measure.push({ words, from, to: from + length });
  }
  if (parts.length) measure.at(-1).from += Math.floor(length / 2);
  return { line: made.line(), measure };
}

// Returns [{ words, steps, mean }] of the parts of an experiment that a run has come to: how many steps of each it took,
// and their mean reward, or, if the page does not know it, how much an action differs from the one before on average.
function tourResults(run, measure) {
  const { rewards, actions } = run.series;
  const measured = rewards ? (step) => rewards.at(step, 0) : (step) => {
    let change = 0;
    for (let k = 0; step > 0 && k < actions.columns; k++) change += Math.abs(actions.at(step, k) - actions.at(step - 1, k));
    return change / actions.columns;
  };
  return measure.filter(({ from }) => from < run.steps).map(({ words, from, to }) => {
    const end = Math.min(to, run.steps);
    let sum = 0;
    for (let step = from; step < end; step++) sum += measured(step);
    return { words, steps: end - from, mean: sum / (end - from) };
  });
}
