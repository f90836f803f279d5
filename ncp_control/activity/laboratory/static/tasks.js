// What Gymnasium's MuJoCo tasks observe, reward and end, with the same operations in the same order.

const sumOfSquares = (values, from = 0) => {
  let sum = 0;
  for (let k = from; k < values.length; k++) sum += values[k] * values[k];
  return sum;
};
const isBetween = (value, [low, high]) => low < value && value < high;
const clipped = (values, low, high) => values.map((value) => Math.min(Math.max(value, low), high));

// A task without a speed: the inverted pendulum's. `settings`: see `settings_of` in world.py.
class BodyTask {
  constructor(physics, settings, dt) {
    Object.assign(this, { physics, settings, dt });
  }

  // Where the body is, before a step.
  place() { return 0; }

  observe() { return joined(Float64Array, [this.physics.get("qpos"), this.physics.get("qvel")]); }

  state(hidden, velocities) {
    return joined(Float64Array, [this.physics.get("qpos").subarray(this.settings.hides ? hidden : 0), velocities]);
  }

  // before: what `place` returned. Returns { reward, terminated }.
  outcome() {
    const seen = this.observe(), terminated = !seen.every(Number.isFinite) || Math.abs(seen[1]) > 0.2;
    return { reward: terminated ? 0 : 1, terminated };
  }
}

class RunningTask extends BodyTask {
  place() { return this.physics.get("qpos")[0]; }

  observe() { return this.state(1, this.physics.get("qvel")); }

  outcome(before, action) {
    const { forward: [weight], control: [cost] } = this.settings;
    const forward = weight * ((this.place() - before) / this.dt);
    return { reward: forward + this.survival() - cost * sumOfSquares(action), terminated: this.fell() };
  }

  survival() { return 0; }

  fell() { return false; }
}

class SwimmerTask extends RunningTask {
  observe() { return this.state(2, this.physics.get("qvel")); }
}

class WalkerTask extends RunningTask {
  observe() { return this.state(1, clipped(this.physics.get("qvel"), -10, 10)); }

  stands() {
    const [, height, angle] = this.physics.get("qpos");
    return isBetween(height, this.settings.heights) && isBetween(angle, this.settings.angles);
  }

  survival() { return this.stands() ? this.settings.healthy[0] : 0; }

  fell() { return this.settings.falls && !this.stands(); }
}

class HopperTask extends WalkerTask {
  stands() {
    const state = joined(Float64Array, [this.physics.get("qpos"), this.physics.get("qvel")]).subarray(2);
    return super.stands() && state.every((value) => isBetween(value, this.settings.states));
  }
}

class AntTask extends WalkerTask {
  place() { return this.physics.get("xpos")[3 * this.settings.main]; }

  forces() { return clipped(this.physics.get("cfrc_ext"), ...this.settings.forces); }

  observe() {
    const seen = this.state(2, this.physics.get("qvel"));
    return this.settings.feels ? joined(Float64Array, [seen, this.forces().subarray(6)]) : seen;
  }

  stands() {
    const { heights: [low, high] } = this.settings, positions = this.physics.get("qpos");
    const finite = positions.every(Number.isFinite) && this.physics.get("qvel").every(Number.isFinite);
    return finite && low <= positions[2] && positions[2] <= high;
  }

  outcome(before, action) {
    const { forward: [weight], control: [cost], contact: [contact] } = this.settings;
    const costs = cost * sumOfSquares(action) + contact * sumOfSquares(this.forces());
    return { reward: (this.place() - before) / this.dt * weight + this.survival() - costs, terminated: this.fell() };
  }
}

class DoublePendulumTask extends BodyTask {
  observe() {
    const positions = this.physics.get("qpos"), angles = positions.slice(1);
    return joined(Float64Array, [positions.subarray(0, 1), angles.map(Math.sin), angles.map(Math.cos),
      clipped(this.physics.get("qvel"), -10, 10), clipped(this.physics.get("qfrc_constraint").slice(0, 1), -10, 10)]);
  }

  outcome() {
    const [x, , y] = this.physics.get("site_xpos"), [, first, second] = this.physics.get("qvel"), terminated = y <= 1;
    const distance = 0.01 * x ** 2 + (y - 2) ** 2, speed = 1e-3 * first ** 2 + 5e-3 * second ** 2;
    return { reward: (terminated ? 0 : this.settings.healthy[0]) - distance - speed, terminated };
  }
}

// A task that Python does not know. What it observes was found in the simulator's state, see recognised.py; how it rewards
// and when it ends is Python code, which the page does not have.
const SEEN_AS = { same: (value) => value, clipped: (value) => Math.min(Math.max(value, -10), 10), sin: Math.sin, cos: Math.cos };

class RecognisedTask extends BodyTask {
  observe() {
    const { sources, single } = this.settings, { physics } = this;
    return Float64Array.from(sources, ([how, field, entry, other, less]) => {
      const value = SEEN_AS[how](physics.get(field)[entry]) - (other ? physics.get(other)[less] : 0);
      return single ? Math.fround(value) : value;
    });
  }

  outcome() { return { reward: NaN, terminated: false }; }
}

const BODY_TASKS = {
  HalfCheetah: RunningTask, Walker2d: WalkerTask, Hopper: HopperTask, Swimmer: SwimmerTask, Ant: AntTask,
  InvertedPendulum: BodyTask, InvertedDoublePendulum: DoublePendulumTask, Recognised: RecognisedTask,
};
