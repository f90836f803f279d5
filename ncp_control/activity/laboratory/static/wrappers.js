// The wrappers of an environment, as `layers_data` describes them. Each has `reset(seed)`, which returns an observation,
// and `step(action)`, which returns { observation, reward, terminated, truncated } and may say which action was
// `executed`, whether it `isRandom`, and the time that the agent sees as `elapsed`. What an inner one says counts.

class WorldLayer {
  constructor(given) { Object.assign(this, given); }

  reset(seed) { return this.inner.reset(seed); }

  step(action) { return this.inner.step(action); }
}

class LimitLayer extends WorldLayer {
  reset(seed) {
    this.taken = 0;
    return this.inner.reset(seed);
  }

  step(action) {
    const found = this.inner.step(action);
    if (++this.taken >= this.steps) found.truncated = true;
    return found;
  }
}

// Refuses what no agent can learn from; a simulation may end so after a very strong push.
class FiniteLayer extends WorldLayer {
  step(action) {
    const found = this.inner.step(action);
    if ((this.isRewarded && !Number.isFinite(found.reward)) || !found.observation.every(Number.isFinite))
      throw new Error("The simulation has failed: what the body senses is not finite any more.");
    return found;
  }
}

// A layer that changes observations alone.
class ShownLayer extends WorldLayer {
  reset(seed) {
    const observation = this.inner.reset(seed);
    this.start();
    return this.show(observation);
  }

  step(action) {
    const found = this.inner.step(action);
    return { ...found, observation: this.show(found.observation) };
  }

  start() {}
}

class KeepLayer extends ShownLayer {
  constructor(given) { super({ kept: unpacked(given.indices) }); }

  show(observation) { return Float64Array.from(this.kept, (entry) => observation[entry]); }
}

class NoiseLayer extends ShownLayer {
  show(observation) {
    const { generator } = this.stream;
    const noisy = observation.map((value, k) => value + (typeof this.std === "number" ? this.std : this.std[k]) * generator.normal());
    return this.clean ? joined(Float64Array, [noisy, observation]) : noisy;
  }
}

class DropoutLayer extends ShownLayer {
  start() { this.last = null; }

  show(observation) {
    const { generator } = this.stream, last = this.last, together = this.whole ? generator.random() : 0;
    const shown = observation.map((value, k) => {
      const isLost = (this.whole ? together : generator.random()) < this.probability;
      return !isLost ? value : last ? last[k] : this.fill;
    });
    if (this.holds) this.last = shown;
    return shown;
  }
}

class RandomLayer extends WorldLayer {
  step(action) {
    const { generator, actions } = this.stream, isRandom = generator.random() < this.probability;
    const executed = isRandom ? action.map((_, k) => Math.fround(actions.uniform(this.low[k], this.high[k]))) : action;
    const found = this.inner.step(executed);
    return { executed, ...found, isRandom: isRandom || Boolean(found.isRandom) };  // whichever wrapper has drawn it
  }
}

class DelayLayer extends WorldLayer {
  constructor(given) {
    super({ steps: given.low, ...given });
    this.empty();
  }

  empty() {
    this.last = this.first;
    this.waiting = Array(this.steps).fill(this.first);
  }

  reset(seed) {
    const observation = this.inner.reset(seed);
    if (this.low < this.high) this.steps = this.low + Number(this.stream.generator.integers(this.high - this.low + 1));
    this.empty();
    return this.show(observation);
  }

  step(action) {
    this.waiting.push(action.slice());
    this.last = this.waiting.shift();
    const found = this.inner.step(this.last);
    return { executed: this.last, ...found, observation: this.show(found.observation) };
  }

  show(observation) {
    if (!this.told) return observation;
    let late = 0;
    for (let layer = this; layer; layer = layer.inner) if (layer instanceof DelayLayer) late += layer.steps;
    return joined(Float64Array, [observation, [late]]);
  }

  // In the middle of an episode, what was executed last is repeated until there are as many actions as wait, and those
  // that have waited too long are not executed.
  setSteps(steps) {
    this.steps = steps;
    while (this.waiting.length > steps) this.waiting.shift();
    while (this.waiting.length < steps) this.waiting.unshift(this.last);
  }
}

class PreviousLayer extends WorldLayer {
  // The agent sees its actions as the environment's space has them, in float32.
  reset(seed) { return joined(Float64Array, [this.inner.reset(seed), new Float64Array(this.size + this.reward)]); }

  step(action) {
    const found = this.inner.step(action), done = [...action].map(Math.fround);
    return { ...found, observation: joined(Float64Array, [found.observation, this.reward ? [...done, found.reward] : done]) };
  }
}

class IrregularLayer extends WorldLayer {
  reset(seed) { return this.show(this.inner.reset(seed), 1); }

  step(action) {
    const frames = this.low + Number(this.stream.generator.integers(this.high - this.low + 1));
    let total = 0, found, taken = 0;
    do {
      found = this.inner.step(action);
      total += found.reward;
      taken++;
    } while (!found.terminated && !found.truncated && taken < frames);
    const time = taken / this.nominal;
    const observation = this.show(found.observation, time);
    return { elapsed: this.apart ? Math.fround(time) : 1, ...found, reward: total, observation };
  }

  show(observation, time) { return this.observed ? joined(Float64Array, [observation, [time]]) : observation; }
}

const LAYER_KINDS = {
  limit: LimitLayer, finite: FiniteLayer, keep: KeepLayer, random: RandomLayer, noise: NoiseLayer, dropout: DropoutLayer,
  delay: DelayLayer, previous: PreviousLayer, irregular: IrregularLayer,
};
