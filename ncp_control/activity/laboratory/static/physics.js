// A body in MuJoCo: its model with the changes that an experiment makes to it, and its present state.

const PUSHED_STEPS = 4; // control steps that a push takes

// What a body's mass changes in a model, besides itself: see mj_setConst. All of it is kept, to be put back bit for bit.
const MASSES = ["body_mass", "body_inertia", "body_subtreemass", "body_invweight0", "dof_M0", "dof_invweight0",
  "tendon_invweight0", "actuator_acc0"];
const MASS_STATISTICS = ["meaninertia", "meanmass"];

class Physics {
  // given: the text of the model and what is changed in it, see world_model.py.
  constructor(mujoco, given, root) {
    this.mujoco = mujoco;
    try {
      this.model = mujoco.MjModel.from_xml_string(given.xml);
    } catch (error) {
      throw new Error(`The simulator of this page cannot read the model of the body: ${error.message.trim()}`);
    }
    this.root = root;
    this.patch(given);
    this.data = new mujoco.MjData(this.model);
    this.views = {};
    const { model } = this;
    this.usual = {
      friction: model.geom_friction.slice(), pairs: model.pair_friction.slice(), gravity: model.opt.gravity.slice(),
      masses: MASSES.map((name) => model[name].slice()), statistics: MASS_STATISTICS.map((name) => model.stat[name]),
    };
    this.factors = { friction: 1, gravity: 1, mass: 1 };
    this.pushes = new Map();
    const turns = new FreeTurns(this, given.turns);
    this.advance = given.turns.length ? () => turns.step() : () => mujoco.mj_step(this.model, this.data);
  }

  patch(given) {
    for (const [fields, owner] of [[given.model, this.model], [given.opt, this.model.opt], [given.stat, this.model.stat]])
      for (const [name, record] of Object.entries(fields)) {
        const values = unpacked(record);
        if (typeof owner[name] === "number") owner[name] = values[0];
        else if (owner[name] && owner[name].length === values.length) owner[name].set(values);
        else throw new Error(`The simulator of this page does not know the model's ${name}.`);
      }
  }

  // An array of the simulator's data. Its memory moves when it grows, and then a view of it is empty.
  get(name) {
    let view = this.views[name];
    if (!view || !view.length) view = this.views[name] = this.data[name];
    return view;
  }

  reset(positions, velocities) {
    this.pushes.clear();
    this.mujoco.mj_resetData(this.model, this.data);
    this.get("qpos").set(positions);
    this.get("qvel").set(velocities);
    this.mujoco.mj_forward(this.model, this.data);
  }

  // Moves the body for one step of the control; `between` is called after each step of the simulator.
  move(action, frames, between) {
    const { mujoco, model, data } = this;
    this.get("ctrl").set(action);
    for (let frame = 0; frame < frames; frame++) {
      this.advance();
      between();
    }
    mujoco.mj_rnePostConstraint(model, data);
  }

  push(body, force) { this.pushes.set(body, { force: Array.from(force), left: PUSHED_STEPS }); }

  applyPushes() {
    for (const [body, { force }] of this.pushes) this.get("xfrc_applied").set(force, 6 * body);
  }

  endPushes() {
    for (const [body, push] of this.pushes)
      if (--push.left === 0) {
        this.get("xfrc_applied").fill(0, 6 * body, 6 * body + 3);
        this.pushes.delete(body);
      }
  }

  // Factors of the sliding friction, of gravity, and of the mass of the body that carries the first joints.
  set({ friction = 1, gravity = 1, mass = 1 }) {
    const { model, usual, factors } = this;
    if (friction !== factors.friction) {
      model.geom_friction.set(usual.friction.map((value, k) => k % 3 === 0 ? value * friction : value));
      model.pair_friction.set(usual.pairs.map((value, k) => k % 5 < 2 ? value * friction : value));
    }
    if (gravity !== factors.gravity) model.opt.gravity.set(usual.gravity.map((value) => value * gravity));
    if (mass !== factors.mass) this.setMass(mass);
    this.factors = { friction, gravity, mass };
  }

  setMass(factor) {
    const { mujoco, model, usual, root } = this;
    MASSES.forEach((name, k) => model[name].set(usual.masses[k]));
    MASS_STATISTICS.forEach((name, k) => { model.stat[name] = usual.statistics[k]; });
    if (factor === 1) return;
    model.body_mass[root] *= factor;
    const inertia = model.body_inertia;
    for (let k = 3 * root; k < 3 * root + 3; k++) inertia[k] *= factor;
    const other = new mujoco.MjData(model); // so that the body itself does not move
    mujoco.mj_setConst(model, other);
    other.delete();
  }

  delete() {
    this.data.delete();
    this.model.delete();
  }
}
