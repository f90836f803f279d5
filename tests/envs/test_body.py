"""What is drawn of a body is where the simulator has it."""

from typing import Any

import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")
mujoco = pytest.importorskip("mujoco")

from ncp_envs.body import Body, poses_of  # noqa: E402

# A cart that is a box with two wheels; a ball that is only for contacts; a box with a material; nothing else.
CART = """
<mujoco>
  <asset><material name="red" rgba="1 0 0 1"/></asset>
  <worldbody>
    <geom type="plane" size="5 5 1" pos="0 0 -0.3"/>
    <body name="cart">
      <joint type="slide" axis="1 0 0"/>
      <geom type="box" size="0.4 0.3 0.1" rgba="0 0 1 1"/>
      <geom type="cylinder" size="0.1 0.02" pos="0.3 0 -0.2" euler="90 0 0" rgba="0 0 1 1"/>
      <geom type="sphere" size="2" group="3"/>
      <body pos="0 0 0.1">
        <joint type="hinge" axis="0 1 0"/>
        <geom type="box" size="0.05 0.05 0.5" pos="0 0 0.5" material="red"/>
        <geom type="sphere" size="0.1" rgba="1 1 1 0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
TETRAHEDRON = """
<mujoco>
  <asset><mesh name="m" vertex="0 0 0  1 0 0  0 2 0  0 0 3"/></asset>
  <worldbody><body><freejoint/><geom type="mesh" mesh="m"/></body></worldbody>
</mujoco>
"""


@pytest.mark.parametrize(
    ("task", "seen_from", "is_flat", "pieces", "ground"),
    [
        ("ncp/HalfCheetahNoVel-v0", "side", True, 8, 0.0),
        ("ncp/HopperNoVel-v0", "side", True, 4, 0.0),
        ("ncp/Walker2dNoVel-v0", "side", True, 7, 0.0),
        ("ncp/SwimmerNoVel-v0", "above", True, 3, -0.1),
        ("ncp/InvertedDoublePendulumNoVel-v0", "side", True, 4, -3.0),
        ("InvertedPendulum-v5", "side", True, 3, None),
        ("Reacher-v5", "above", True, 9, 0.0),
        ("ncp/AntNoVel-v0", "side", False, 13, 0.0),
        ("Humanoid-v5", "side", False, 17, 0.0),
    ],
)
def test_a_body_is_seen_in_the_plane_in_which_it_moves(
    task: str, seen_from: str, is_flat: bool, pieces: int, ground: float | None
) -> None:
    env = gym.make(task).unwrapped
    body = Body(env.model)
    assert (body.seen_from, body.is_flat, len(body.geoms)) == (seen_from, is_flat, pieces)
    assert body.ground == (None if ground is None else pytest.approx(ground))
    env.reset(seed=0)
    env.action_space.seed(0)
    rows = []
    for _ in range(10):
        env.step(env.action_space.sample())
        rows.append(env.data.qpos.copy())
    poses = poses_of(env.model, np.stack(rows))
    mujoco.mj_kinematics(env.model, env.data)
    np.testing.assert_array_equal(poses.positions[-1], env.data.geom_xpos)
    places = body.places(*poses)
    np.testing.assert_array_equal(places[-1, :, :3], env.data.geom_xpos[body.geoms])
    turned = np.empty(9)
    for place, rotation in zip(places[-1], env.data.geom_xmat[body.geoms], strict=True):
        mujoco.mju_quat2Mat(turned, place[3:])
        np.testing.assert_allclose(turned, rotation, atol=1e-12)
    across = places[:, :, 2 if seen_from == "above" else 1]
    if is_flat:
        np.testing.assert_allclose(across, np.broadcast_to(across[0], across.shape), atol=1e-9)
    ends = body.capsules(*poses).ends
    axes = [0, 1] if seen_from == "above" else [0, 2]
    np.testing.assert_allclose(ends.mean(axis=2), places[:, :, axes], atol=1e-12)
    sizes, kinds = env.model.geom_size[body.geoms], env.model.geom_type[body.geoms]
    lengths = np.where(kinds == int(mujoco.mjtGeom.mjGEOM_CAPSULE), 2 * sizes[:, 1], 0)
    drawn = np.linalg.norm(ends[:, :, 1] - ends[:, :, 0], axis=2)
    if is_flat and task != "Reacher-v5":  # in its plane all are as long as they are
        np.testing.assert_allclose(drawn, np.broadcast_to(lengths, drawn.shape), atol=1e-9)
    assert (drawn <= lengths + 1e-9).all()


def test_boxes_and_wheels_are_drawn_as_the_capsules_inside_them() -> None:
    model: Any = mujoco.MjModel.from_xml_string(CART)
    body = Body(model)
    assert (body.seen_from, body.is_flat, body.ground) == ("side", True, -0.3)
    # What only helps the simulation, and what is transparent, is not drawn.
    np.testing.assert_array_equal(body.shapes[:, 0], [int(kind) for kind in (
        mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_BOX,
    )])  # fmt: skip
    np.testing.assert_array_equal(body.shapes[:, 4:], [[0, 0, 1, 1], [0, 0, 1, 1], [1, 0, 0, 1]])
    found = body.capsules(*poses_of(model, np.array([[0.0, 0.0], [2.0, np.pi / 2]])))
    np.testing.assert_allclose(found.radii, [0.1, 0.1, 0.05])
    ends = np.sort(found.ends, axis=2)
    np.testing.assert_allclose(ends[0, 0], [[-0.3, 0.0], [0.3, 0.0]], atol=1e-9)
    np.testing.assert_allclose(ends[0, 1], [[0.3, -0.2], [0.3, -0.2]], atol=1e-9)
    np.testing.assert_allclose(ends[0, 2], [[0.0, 0.15], [0.0, 1.05]], atol=1e-9)
    np.testing.assert_allclose(ends[1, 2], [[2.05, 0.1], [2.95, 0.1]], atol=1e-9)


def test_a_mesh_is_drawn_as_the_box_around_it() -> None:
    model: Any = mujoco.MjModel.from_xml_string(TETRAHEDRON)
    body = Body(model)
    assert body.shapes[0, 0] == int(mujoco.mjtGeom.mjGEOM_BOX)
    # MuJoCo turns a mesh into its principal axes, so the box is as large as the mesh is in those.
    vertices = model.mesh_vert
    np.testing.assert_allclose(2 * body.shapes[0, 1:4], np.ptp(vertices, axis=0), atol=1e-6)
    data: Any = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    middle = (vertices.max(axis=0) + vertices.min(axis=0)) / 2
    wanted = data.geom_xpos[0] + data.geom_xmat[0].reshape(3, 3) @ middle
    place = body.places(data.geom_xpos[None], data.geom_xmat[None])[0, 0, :3]
    np.testing.assert_allclose(place, wanted, atol=1e-6)
