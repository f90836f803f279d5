// A body, its task and its wrappers: what `gymnasium.make` gives in Python, live in the page.

// The task without wrappers: the innermost layer.
class BodyLayer {
  // onSubstep: is called after each step of the simulator.
  constructor(physics, data, onSubstep) {
    Object.assign(this, { physics, frames: data.frames, onSubstep, number: -1 });
    const settings = {};
    for (const [name, value] of Object.entries(data.settings)) settings[name] = value.data ? unpacked(value) : value;
    this.task = new BODY_TASKS[data.task](physics, settings, data.dt);
    this.start = { ...data.start, positions: unpacked(data.start.positions), velocities: unpacked(data.start.velocities) };
    this.random = new NumpyRandom(new Ziggurat(unpacked(data.widths)));
  }

  reset(seed) {
    const { random } = this, { positions, velocities, noise, normal, count } = this.start;
    if (count) return this.startAs((seed ?? this.number + 1) % count);
    if (seed !== null) random.restart(seed);
    const uniform = (value) => value + random.uniform(-noise, noise);
    const first = positions.map(uniform);
    this.physics.reset(first, velocities.map(normal ? (value) => value + noise * random.normal() : uniform));
    return this.task.observe();
  }

  // Starts as Python did with a seed that was tried there.
  startAs(number) {
    const { positions, velocities, count } = this.start, { physics } = this;
    this.number = number;
    physics.reset(...[positions, velocities].map((rows) => rows.subarray(number * rows.length / count, (number + 1) * rows.length / count)));
    return this.task.observe();
  }

  step(action) {
    const before = this.task.place();
    this.physics.move(action, this.frames, this.onSubstep);
    return { observation: this.task.observe(), ...this.task.outcome(before, action), truncated: false };
  }
}

class World {
  // mujoco: from openSimulator; data: of `world_data` in Python, and `means`: what an observation that is hidden reads.
  constructor(mujoco, data) {
    const { dt, observationNames, actionNames } = data;
    Object.assign(this, { data, dt, observationNames, actionNames, bodies: data.bodies, isRewarded: data.task !== "Recognised" });
    this.low = unpacked(data.low);
    this.high = unpacked(data.high);
    this.physics = new Physics(mujoco, data.model, data.geometry.root);
    this.shape = new BodyShape(this.physics, data.geometry);
    this.geometry = this.shape.geometry;
    this.body = new BodyLayer(this.physics, data, () => this.onSubstep());
    this.streams = new Streams(this.body.random.ziggurat);
    this.made = data.layers.slice(0, data.below).map((given) => this.layer(given));
    this.trained = data.layers.slice(data.below).map((given) => this.layer(given));
    // 0.05 rather than 0.050000000000000044
    this.share = Number((1 - this.trained.reduce((kept, layer) => kept * (layer instanceof RandomLayer ? 1 - layer.probability : 1), 1)).toFixed(12));
    this.added = {
      random: this.layer({ kind: "random", probability: 0 }),
      delay: this.layer({ kind: "delay", low: 0, high: 0 }),
      noise: this.layer({ kind: "noise" }),
      dropout: this.layer({ kind: "dropout", whole: true, holds: false, fill: 0 }),
    };
    this.onSubstep = () => {};
    this.set({});
  }

  layer(given) {
    const more = { kind: given.kind };
    if (given.kind === "finite") more.isRewarded = this.isRewarded;
    if (given.kind === "random") Object.assign(more, { low: this.low, high: this.high });
    if (given.kind === "noise" && given.std) more.std = unpacked(given.std);
    if (given.kind === "delay") more.first = given.first ? unpacked(given.first) : new Float64Array(this.low.length);
    if (given.kind === "previous") more.size = this.low.length;
    return new LAYER_KINDS[given.kind]({ ...given, ...more });
  }

  // Every setting that is not given is as it was in the training.
  // random: the share of random actions; noise: the standard deviation of noise on all observations; dropout: the
  // probability that an observation reads zeros; delay: of actions, in steps; friction, gravity, mass: factors;
  // hidden: the numbers of observations that read their means.
  set(settings) {
    const { random, noise = 0, dropout = 0, delay = 0, hidden = [] } = settings, { added } = this;
    this.physics.set(settings);
    this.hidden = hidden;
    const asTrained = random === undefined || random === null || Math.abs(random - this.share) < 1e-12;
    added.random.probability = asTrained ? 0 : random;
    added.noise.std = noise;
    added.dropout.probability = dropout;
    added.delay.setSteps(delay);
    const disturbances = [added.random, added.delay, added.noise, added.dropout].filter((layer) =>
      layer === added.delay || (layer === added.random ? layer.probability : layer === added.noise ? noise : dropout));
    this.join([...this.made, ...disturbances, ...this.trained.filter((layer) => asTrained || !(layer instanceof RandomLayer))]);
  }

  // Puts layers around the body, the innermost first, and gives each its random stream.
  join(layers) {
    const counts = {};
    this.outer = this.body;
    for (const layer of layers) {
      layer.inner = this.outer;
      if (STREAM_KEYS[layer.kind] && layer !== this.added.delay) {
        layer.stream = this.streams.of(layer.kind, counts[layer.kind] || 0);
        counts[layer.kind] = (counts[layer.kind] || 0) + 1;
      }
      this.outer = layer;
    }
  }

  // Begins an episode, as env.reset(seed=seed); without a seed the streams go on.
  reset(seed = null) {
    if (seed !== null) this.streams.restart(seed);
    return this.shown(this.outer.reset(seed));
  }

  // elapsed is the time as the agent sees it: 1 where it sees none.
  step(action) {
    if (action.length !== this.low.length)
      throw new Error(`An action of this body has ${this.low.length} numbers, not ${action.length}.`);
    this.physics.applyPushes();
    const found = this.outer.step(Float64Array.from(action));
    this.physics.endPushes();
    const { reward, terminated, truncated, executed = action, isRandom = false, elapsed = 1 } = found;
    const observation = this.shown(found.observation);
    return { observation, reward, terminated, truncated, executed: Float64Array.from(executed), isRandom, elapsed };
  }

  // The present observation, if what is hidden has changed since it was made.
  look() { return this.shown(this.latest); }

  shown(observation) {
    this.latest = observation;
    const found = Float64Array.from(observation), { means } = this.data;
    for (const k of this.hidden) found[k] = means ? means[k] : 0;
    return found;
  }

  // body: a name of `bodies`; force: in newtons, [x, y, z], during the next 4 control steps.
  push(body, force) {
    const number = this.bodies.indexOf(body);
    if (number < 0) throw new Error(`There is no part ${body} of the body to push.`);
    this.physics.push(number + 1, force);
  }

  ends() { return this.shape.ends(); }

  places() { return this.shape.places(); }

  speed() { return this.shape.speed(); }

  // Gives the simulator's memory back.
  delete() {
    this.shape.delete();
    this.physics.delete();
  }
}
