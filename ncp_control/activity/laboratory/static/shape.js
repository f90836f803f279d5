// Where the pieces of a body are that a picture shows, as `ncp_envs.body.Body` computes it for a recording.

// The orientation of a rotation matrix, row by row from `at` on, as a quaternion (w, x, y, z).
function quaternionOf(matrix, at) {
  const xx = matrix[at], yy = matrix[at + 4], zz = matrix[at + 8];
  const sums = [xx + yy + zz, xx - yy - zz, yy - xx - zz, zz - xx - yy];
  const x = matrix[at + 7] - matrix[at + 5], y = matrix[at + 2] - matrix[at + 6], z = matrix[at + 3] - matrix[at + 1];
  const xy = matrix[at + 1] + matrix[at + 3], xz = matrix[at + 2] + matrix[at + 6], yz = matrix[at + 5] + matrix[at + 7];
  // The largest of the four is a root, so that no small number is divided by.
  const largest = sums[0] > 0 ? 0 : xx > yy && xx > zz ? 1 : yy > zz ? 2 : 3;
  const root = 0.5 * Math.sqrt(1 + sums[largest]), part = 0.25 / root;
  const found = [[root, part * x, part * y, part * z], [part * x, root, part * xy, part * xz],
    [part * y, part * xy, root, part * yz], [part * z, part * xz, part * yz, root]][largest];
  const length = Math.hypot(...found);
  return found.map((value) => value / length);
}

class BodyShape {
  // given: see `geometry_data` in world.py.
  constructor(physics, given) {
    this.physics = physics;
    const { seenFrom, flat, ground, forward } = given;
    const arrays = ["geoms", "along", "lengths", "radii", "shapes"].map((name) => unpacked(given[name]));
    const [geoms, along, lengths, radii, shapes] = arrays;
    Object.assign(this, { geoms, along, lengths, forward, geometry: { radii, shapes, seenFrom, flat, ground } });
    // Places are computed in data of their own: some rewards compare the body's places before and after a step.
    this.copy = new physics.mujoco.MjData(physics.model);
  }

  // Computes the present places. After a step, those of the simulator are older than its positions.
  look() {
    const { mujoco, model } = this.physics;
    this.copy.qpos.set(this.physics.get("qpos"));
    mujoco.mj_kinematics(model, this.copy);
    return this.copy;
  }

  // Both ends of each capsule in the plane of the picture, four numbers each.
  ends() {
    const { geom_xpos: positions, geom_xmat: turns } = this.look();
    const down = this.geometry.seenFrom === "above" ? 1 : 2, found = new Float64Array(4 * this.geoms.length);
    this.geoms.forEach((geom, k) => {
      [0, down].forEach((axis, j) => {
        const middle = positions[3 * geom + axis], half = turns[9 * geom + 3 * axis + this.along[k]] * this.lengths[k];
        found[4 * k + j] = middle - half;
        found[4 * k + 2 + j] = middle + half;
      });
    });
    return found;
  }

  // The middle and the orientation of each piece, seven numbers each.
  places() {
    const { geom_xpos: positions, geom_xmat: turns } = this.look(), found = new Float64Array(7 * this.geoms.length);
    this.geoms.forEach((geom, k) => {
      found.set(positions.subarray(3 * geom, 3 * geom + 3), 7 * k);
      found.set(quaternionOf(turns, 9 * geom), 7 * k + 3);
    });
    return found;
  }

  speed() { return this.forward < 0 ? 0 : this.physics.get("qvel")[this.forward]; }

  delete() { this.copy.delete(); }
}
