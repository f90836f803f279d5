"""What there is to draw of a MuJoCo body: its geometry in space, and as capsules in a plane, for flat pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ncp_envs.mujoco_messages import without_mass_warning

Array = NDArray[np.float64]
SECONDS = 0.05  # between two observations of a half-cheetah
SIDE, ABOVE = "side", "above"
UNSET_COLOUR = np.array([0.5, 0.5, 0.5, 1.0], np.float32)  # of geoms without a colour of their own
SHOWN_GROUPS = 3  # MuJoCo shows the groups 0 to 2 of geometry, and by custom the others only help the simulation


class Capsules(NamedTuple):
    """Capsules in the plane in which a body is drawn: x and z, or x and y if it is seen from above.

    :param ends: (T, G, 2, 2), both ends of each capsule at each time, in metres
    :param radii: (G,), in metres
    """

    ends: Array
    radii: Array


class Body:
    """The visible geometry of a MuJoCo model, without its ground and other planes.

    Importing mujoco is left to the class, so that its module costs nothing.

    :ivar seen_from: "above" if every joint moves it in the horizontal plane, and otherwise "side"
    :ivar is_flat: whether every joint moves it in one and the same plane, either of those two
    :ivar ground: the height of the highest plane, in metres, or None if there is none
    :ivar geoms: (G,), the model's numbers of what is drawn
    :ivar shapes: (G, 8), the type of each (mjtGeom), its three sizes in metres, and its colour: red, green, blue, alpha
    :ivar along: (G,), the number of its own axis along which each is drawn as a capsule
    :ivar lengths: (G,), half the lengths of these capsules
    :ivar radii: (G,), and their radii
    """

    def __init__(self, model: Any) -> None:
        import mujoco

        kinds = mujoco.mjtGeom
        drawn = [kinds.mjGEOM_SPHERE, kinds.mjGEOM_CAPSULE, kinds.mjGEOM_ELLIPSOID, kinds.mjGEOM_CYLINDER,
                 kinds.mjGEOM_BOX, kinds.mjGEOM_MESH]  # fmt: skip
        colours = model.geom_rgba.copy()
        # As MuJoCo draws it: a material's colour counts only where the geom has none of its own.
        of_material = np.flatnonzero((model.geom_matid >= 0) & (colours == UNSET_COLOUR).all(axis=1))
        colours[of_material] = model.mat_rgba[model.geom_matid[of_material]]
        shown = (model.geom_group < SHOWN_GROUPS) & (colours[:, 3] > 0)
        rest: Any = mujoco.MjData(model)
        mujoco.mj_kinematics(model, rest)
        self.seen_from, self.is_flat = _plane_of(model, rest)
        planes = rest.geom_xpos[(model.geom_type == int(kinds.mjGEOM_PLANE)) & shown, 2]
        self.ground = float(planes.max()) if len(planes) else None
        self.geoms = np.flatnonzero(np.isin(model.geom_type, [int(kind) for kind in drawn]) & shown)
        types, sizes = model.geom_type[self.geoms].astype(float), model.geom_size[self.geoms].copy()
        # A mesh is drawn as the box around it, because its triangles would have to be kept as well.
        self._meshes = np.flatnonzero(types == int(kinds.mjGEOM_MESH))
        self._middles = model.geom_aabb[self.geoms[self._meshes], :3].copy()
        sizes[self._meshes] = model.geom_aabb[self.geoms[self._meshes], 3:]
        types[self._meshes] = int(kinds.mjGEOM_BOX)
        self.shapes = np.concatenate([types[:, None], sizes, colours[self.geoms]], axis=1)
        across = 2 if self.seen_from == ABOVE else 1
        self._axes = [0, 1] if self.seen_from == ABOVE else [0, 2]
        self.along, self.lengths, self.radii = _capsules(
            self.shapes, rest.geom_xmat[self.geoms].reshape(-1, 3, 3)[:, across]
        )

    def places(self, positions: Array, rotations: Array) -> Array:
        """Returns where the geometry is, (T, G, 7): x, y and z, and the orientation as a quaternion (w, x, y, z).

        :param positions: (T, geoms of the model, 3), `geom_xpos` at each time
        :param rotations: (T, geoms of the model, 9), `geom_xmat` at each time
        """
        import mujoco

        turned = np.ascontiguousarray(rotations[:, self.geoms], np.float64)
        quaternions = np.empty((*turned.shape[:2], 4))
        for step, geom in np.ndindex(turned.shape[:2]):
            mujoco.mju_mat2Quat(quaternions[step, geom], turned[step, geom])
        return np.concatenate([self._centres(positions, rotations), quaternions], axis=2)

    def capsules(self, positions: Array, rotations: Array) -> Capsules:
        """Returns the geometry as capsules in the plane in which it is drawn; see `places` for the parameters.

        What is round about an axis keeps its outline. A box becomes the capsule inside it.
        """
        turned = rotations[:, self.geoms].reshape(len(rotations), len(self.geoms), 3, 3)
        axis = np.take_along_axis(turned, self.along[None, :, None, None], axis=3)[..., 0] * self.lengths[:, None]
        middle = self._centres(positions, rotations)
        return Capsules(np.stack([middle - axis, middle + axis], axis=2)[..., self._axes], self.radii.copy())

    def _centres(self, positions: Array, rotations: Array) -> Array:
        """Returns the middles of the geometry, (T, G, 3)."""
        found = np.array(positions[:, self.geoms])
        turned = rotations[:, self.geoms[self._meshes]].reshape(len(rotations), len(self._meshes), 3, 3)
        found[:, self._meshes] += (turned @ self._middles[:, :, None])[..., 0]
        return found


def _plane_of(model: Any, rest: Any) -> tuple[str, bool]:
    """Returns where a body is seen from, and whether it stays in the plane that is seen from there."""
    import mujoco

    types, axes = model.jnt_type, np.abs(rest.xaxis)
    slides, hinges = types == mujoco.mjtJoint.mjJNT_SLIDE, types == mujoco.mjtJoint.mjJNT_HINGE
    for seen_from, across in ((SIDE, 1), (ABOVE, 2)):
        along = axes[:, across]
        if np.all((slides & (along < 1e-6)) | (hinges & (along > 1 - 1e-6))):
            return seen_from, True
    return SIDE, False


def _capsules(shapes: Array, across: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Returns how the geometry is drawn as capsules: along which of its own axes, half their lengths, and the radii.

    :param shapes: (G, 8), see `Body`
    :param across: (G, 3), the direction of sight at first, in the axes of each
    """
    import mujoco

    kinds = mujoco.mjtGeom
    sphere, capsule, cylinder = map(int, (kinds.mjGEOM_SPHERE, kinds.mjGEOM_CAPSULE, kinds.mjGEOM_CYLINDER))
    along, lengths, radii = np.full(len(shapes), 2), np.zeros(len(shapes)), shapes[:, 1].copy()
    for k, (kind, *numbers) in enumerate(shapes[:, :4]):
        size = np.array(numbers)
        if kind == capsule:
            lengths[k] = size[1]
        elif kind != sphere:
            half = np.array([size[0], size[0], size[1]]) if kind == cylinder else size
            order = np.argsort(-half, kind="stable")
            order = order[order != np.argmax(np.abs(across[k]))]
            along[k], radii[k] = order[0], half[order[1]]
            lengths[k] = half[order[0]] - half[order[1]]
    return along, lengths, radii


class Poses(NamedTuple):
    """Where every geom of a model is at each time.

    :param positions: (T, geoms, 3)
    :param rotations: (T, geoms, 9)
    """

    positions: Array
    rotations: Array


def poses_of(model: Any, positions: Array) -> Poses:
    """Returns where the geometry of a model is at its generalised positions, (T, nq)."""
    import mujoco

    data: Any = mujoco.MjData(model)
    found = []
    for row in positions:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        found.append((data.geom_xpos.copy(), data.geom_xmat.copy()))
    return Poses(*(np.stack(parts) for parts in zip(*found, strict=True)))


def half_cheetah_model() -> Any:
    """Returns the model of Gymnasium's half-cheetah."""
    import mujoco
    from gymnasium.envs import mujoco as tasks

    with without_mass_warning():
        return mujoco.MjModel.from_xml_path(str(Path(tasks.__file__).parent / "assets" / "half_cheetah.xml"))


def half_cheetah_positions(observations: Any, x: Any = None) -> Array:
    """Returns the generalised positions of a half-cheetah, (T, 9), from its observations.

    :param observations: (T, 17), or (T, 8) if only the positions are observed. The first 8 entries are the height and
        the angle of the torso and the angles of the six joints
    :param x: (T,), the distance that it has run; by default the integral of the observed velocity, or zeros if no
        velocity is observed
    """
    seen = np.asarray(observations, np.float64)
    if seen.ndim != 2 or seen.shape[1] not in (8, 17):
        raise ValueError(f"a half-cheetah has 17 observations at each step, or 8 positions: got shape {seen.shape}")
    if x is None:
        speed = seen[:, 8] if seen.shape[1] == 17 else np.zeros(len(seen))
        x = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2 * SECONDS)])
    along = np.asarray(x, np.float64)
    if along.shape != (len(seen),):
        raise ValueError(f"x needs a distance for each of the {len(seen)} observations, and has shape {along.shape}")
    return np.concatenate([along[:, None], seen[:, :8]], axis=1)


def half_cheetah_capsules(observations: Any, x: Any = None) -> Capsules:
    """Returns the body of a half-cheetah as capsules; see `half_cheetah_positions` for the parameters."""
    positions = half_cheetah_positions(observations, x)
    model = half_cheetah_model()
    return Body(model).capsules(*poses_of(model, positions))
