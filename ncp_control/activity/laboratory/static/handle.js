// What tests and people at the browser's console can ask the page.

start().then(() => {
  const numberOf = (neuron) => typeof neuron === "number" ? neuron : WIRING.neuronNames.indexOf(neuron);
  const runOf = (side) => bench.runs[side || state.side];
  window.ncp = {
    play, pause, oneStep, lookAt, playing: () => state.playing, step: () => state.step, next: () => bench.next,
    restart(seed) { byId("seed").value = seed; restart(); },
    change: (what, on, value) => bench.change(what, on, value), add: (change) => bench.add(change),
    undo: () => bench.undo(), line: () => bench.experiment.line(),
    runLine(line) { bench.runLine(line); restarted(); },
    // Takes steps without drawing them, and returns how many were taken.
    advance(count) {
      let taken = 0;
      while (taken < count && bench.advance()) taken++;
      return taken;
    },
    putBeside, showSide, side: () => state.side, sides: () => bench.sides,
    over: (side) => runOf(side).over, return: (side) => runOf(side).return, steps: (side) => runOf(side).steps,
    // A row of a series such as "neurons" or "observations"; `newest` is the last one.
    row(name, step, side) {
      const series = runOf(side).series[name];
      return Array.from({ length: series.columns }, (_, c) => series.at(step ?? series.steps - 1, c));
    },
    names: () => ({ inputs: WIRING.inputNames, neurons: WIRING.neuronNames }),
    placeOf: (neuron) => ({ ...parts.wiring.places.get(numberOf(neuron)), radius: parts.wiring.radius }),
    select: (neuron) => { if (!state.chosen.includes(numberOf(neuron))) toggle(numberOf(neuron)); },
    selected: () => state.chosen.map(nameOf), deselect: clearChosen,
    pick: (k) => parts.tools.pick(SYNAPSES[k]), picked: () => state.picked && nameOfLink(state.picked),
    recording: () => btoa(Array.from(parts.log.recording(), (byte) => String.fromCharCode(byte)).join("")),
    command: () => parts.log.command(), bodies: () => bench.vocabulary.bodies,
  };
  document.documentElement.dataset.ready = "yes";
}).catch((error) => say(`this laboratory cannot run here: ${error.message}`, true));
