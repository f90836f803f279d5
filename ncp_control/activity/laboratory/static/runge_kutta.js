// MuJoCo 4 steps a body that turns freely in another way than the builds for browsers up to now: its Runge-Kutta method
// takes into account that turns about different axes do not add up. With h the time step, for stages k = 1 to 4:
//   q_k = q ⊕ c_k h u_(k-1),   v_k = v + c_k h a_(k-1),   a_k = the acceleration at (q_k, v_k),   u_k = v_k corrected,
// with c = 0, 1/2, 1/2, 1. The step is q ⊕ h (u_1 + 2 u_2 + 2 u_3 + u_4) / 6, and the same sum of a for v. This is the
// method of Runge, Kutta and Munthe-Kaas; without free and ball joints it is the usual one.

const crossProduct = ([a, b, c], [x, y, z]) => [b * z - c * y, c * x - a * z, a * y - b * x];

// The velocity of a turn: of a body that has turned by `turn` and now turns with `velocity`.
function turnVelocity(turn, velocity) {
  const angle = Math.hypot(...turn), first = crossProduct(turn, velocity), second = crossProduct(turn, first);
  // 1/12 is the limit for small angles, at which the difference below loses its digits.
  const factor = angle < 1e-3 ? 1 / 12 + angle * angle / 720 : (1 - angle / 2 / Math.tan(angle / 2)) / (angle * angle);
  return velocity.map((value, k) => value + first[k] / 2 + factor * second[k]);
}

class FreeTurns {
  // turns: the numbers of the velocities of every free or ball joint's turn, the first of three each.
  constructor(physics, turns) { Object.assign(this, { physics, turns }); }

  corrected(turned, velocities) {
    const found = velocities.slice();
    const three = (values, at) => Array.from(values.subarray(at, at + 3));
    for (const at of this.turns) found.set(turnVelocity(three(turned, at), three(velocities, at)), at);
    return found;
  }

  // One step of the simulator, in place of mj_step.
  step() {
    const { physics } = this, { mujoco, model, data } = physics, time = model.opt.timestep;
    mujoco.mj_checkPos(model, data);
    mujoco.mj_checkVel(model, data);
    mujoco.mj_forward(model, data);
    mujoco.mj_checkAcc(model, data);
    const positions = physics.get("qpos").slice(), velocities = physics.get("qvel").slice(), begun = data.time;
    const speeds = [velocities], accelerations = [physics.get("qacc").slice()];
    for (const part of [time / 2, time / 2, time]) {
      const moved = speeds.at(-1).map((value) => part * value), faster = accelerations.at(-1);
      this.moveTo(positions, moved, 1);
      physics.get("qvel").set(velocities.map((value, k) => value + part * faster[k]));
      data.time = begun + part;
      mujoco.mj_forwardSkip(model, data, 0, 1);
      speeds.push(this.corrected(moved, physics.get("qvel")));
      accelerations.push(physics.get("qacc").slice());
    }
    const mean = ([a, b, c, d]) => a.map((value, k) => (value + 2 * b[k] + 2 * c[k] + d[k]) / 6), faster = mean(accelerations);
    this.moveTo(positions, mean(speeds), time);
    physics.get("qvel").set(velocities.map((value, k) => value + time * faster[k]));
    physics.get("qacc_warmstart").set(accelerations[3]);
    data.time = begun + time;
  }

  moveTo(positions, velocities, time) {
    const { mujoco, model } = this.physics, found = this.physics.get("qpos");
    found.set(positions);
    mujoco.mj_integratePos(model, found, velocities, time);
  }
}
