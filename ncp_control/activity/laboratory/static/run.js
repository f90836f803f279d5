// One circuit in its world: it takes step after step, and everything that happens is kept for the pictures.

const MOST_STEPS = 20000; // of an episode without a time limit
const MOST_NUMBERS = 2 ** 28; // that are kept of one
// See `strong` in the data of a recorded rollout; here it is that of the last steps.
const STRONG_QUANTILE = 0.98, MEASURED_STEPS = 20;

class Run {
  // exhibit: the circuit's data; simulator: from openSimulator.
  constructor(exhibit, simulator) {
    this.exhibit = exhibit;
    this.controller = new PageController(exhibit.controller);
    this.world = new World(simulator, exhibit.world);
    if (exhibit.world.states) this.states = unpacked(exhibit.world.states);
    const { cell } = this.controller, { wiring } = exhibit;
    const series = (columns, log) => new LiveSeries(columns, log);
    this.series = {
      observations: series(this.world.observationNames.length), inputs: series(wiring.inputs), neurons: series(cell.units),
      constants: series(cell.units, true), sensory: series(wiring.sensory.source.length),
      synapses: series(wiring.synapses.source.length), gaps: series(wiring.gaps.length), outputs: series(cell.outputs),
      actions: series(this.world.actionNames.length), executed: series(this.world.actionNames.length),
      random: series(1), places: series(7 * exhibit.body.radii.length), speeds: series(1), elapsed: series(1),
    };
    if (this.world.isRewarded) Object.assign(this.series, { rewards: series(1), returns: series(1) });
    if (cell.stateSize !== cell.units) this.series.states = series(cell.stateSize);
    this.body = new LiveBody(exhibit.body);
    this.series.ends = this.body.poses;
    this.activity = this.newActivity();
    const columns = Object.values(this.series).reduce((sum, own) => sum + own.columns, 0);
    this.most = Math.min(MOST_STEPS, Math.floor(MOST_NUMBERS / columns));
    this.between = [];
    this.world.onSubstep = () => { this.between.push(this.world.ends()); };
  }

  newActivity() {
    const { exhibit, series, world } = this;
    return {
      live: true, steps: 0, dt: world.dt, facts: exhibit.facts, bounds: exhibit.bounds,
      constantBounds: exhibit.constantBounds, currentsKnown: true, constantsKnown: [], strong: 1, starts: [0], random: [],
      observationNames: exhibit.observationNames, actionNames: exhibit.actionNames, neurons: series.neurons,
      constants: series.constants, inputs: series.inputs, sensory: series.sensory, synapses: series.synapses,
      gaps: series.gaps, observations: series.observations, actions: series.actions, executed_actions: series.executed,
      rewards: series.rewards, returns: series.returns, speeds: series.speeds, outputs: series.outputs, body: this.body,
    };
  }

  get steps() { return this.activity.steps; }

  get starts() { return this.activity.starts; }

  // Begins an episode; its first step is still to come.
  reset(seed) {
    for (const series of Object.values(this.series)) series.clear();
    this.body.clear();
    Object.assign(this.activity, { steps: 0, random: [] });
    this.over = null;
    this.return = 0;
    this.seed = seed;
    this.observation = this.world.reset(seed);
    this.elapsed = 1;
    this.state = this.first(seed);
  }

  // The circuit's state before the first step: an episode's, or that of the moment at which this seed begins.
  first(seed) {
    const { cell } = this.controller;
    if (!this.states) return cell.initial();
    const first = seed % (this.states.length / cell.stateSize) * cell.stateSize;
    return cell.hold(this.states.slice(first, first + cell.stateSize));
  }

  // settings: of Experiment.settingsAt: `tuning` for this circuit, `world` for its world.
  tune(tuning, world) {
    this.controller.cell.tune(tuning);
    this.world.set(world);
    if (this.steps) this.observation = this.world.look();
  }

  // Takes a step of the world, unless the episode is over.
  step() {
    if (this.over) return false;
    const { series, controller, world, activity } = this, { cell } = controller;
    const inputs = controller.features(this.observation, this.elapsed);
    const after = cell.step(inputs, this.state, controller.timed ? this.elapsed : 1);
    const currents = cell.currents(inputs, this.state, after), constants = cell.timeConstants(inputs, this.state);
    const outputs = cell.motor(after), action = controller.act(outputs);
    if (activity.steps && !(after.every(Number.isFinite) && action.every(Number.isFinite))) {
      this.over = "overflow";
      return false;
    }
    series.observations.push(this.observation);
    series.inputs.push(inputs);
    series.neurons.push(cell.neurons(after));
    series.constants.push(constants);
    series.sensory.push(currents.sensory);
    series.synapses.push(currents.synapses);
    series.gaps.push(currents.gaps);
    series.outputs.push(outputs);
    series.actions.push(action);
    series.elapsed.push([this.elapsed]);
    const places = world.places();
    series.places.push(places);
    if (series.states) series.states.push(after);
    this.body.push(world.ends(), places);
    this.state = after;
    this.between = [];
    const found = world.step(action);
    this.return += found.reward;
    series.executed.push(found.executed);
    series.rewards?.push([found.reward]);
    series.returns?.push([this.return]);
    series.random.push([found.isRandom ? 1 : 0]);
    series.speeds.push([world.speed()]);
    if (found.isRandom) activity.random.push(activity.steps);
    this.observation = found.observation;
    this.elapsed = found.elapsed;
    activity.steps++;
    if (activity.steps === 1 || activity.steps % MEASURED_STEPS === 0) this.measure();
    if (found.terminated) this.over = "fell";
    else if (found.truncated) this.over = "time";
    else if (activity.steps >= this.most) this.over = "full";
    return true;
  }

  // How strong a strong current is now, and what this cell knows of itself.
  measure() {
    const { activity, series } = this, last = Math.max(0, activity.steps - MEASURED_STEPS);
    // Arrays of numbers throughout, because a large circuit has many synapses.
    const [sensory, synapses] = [series.sensory, series.synapses].map((own) =>
      own.values.subarray(last * own.columns, activity.steps * own.columns).map(Math.abs).filter(Number.isFinite));
    const sizes = new Float32Array(sensory.length + synapses.length);
    sizes.set(sensory);
    sizes.set(synapses, sensory.length);
    activity.currentsKnown = sizes.length > 0;
    activity.strong = sizes.length ? sizes.sort()[Math.floor(STRONG_QUANTILE * (sizes.length - 1))] : 0;
    activity.constantsKnown = Array.from({ length: series.constants.columns }, (_, n) => series.constants.known(n));
  }

  // Shows the newest step's body a part of the way to the next one: from 0 to 1.
  tween(fraction) {
    const { between } = this;
    this.body.between = fraction > 0 && between.length ? between[Math.min(between.length, Math.ceil(fraction * between.length)) - 1] : null;
  }
}
