"""Thirty faults for `planted_faults.py`: slips that compile, import and run, with at least one in each room."""

from __future__ import annotations

from dataclasses import dataclass

SCANS = ("tests/ops/test_scan.py", "tests/ops/cpu/test_agreement.py")


@dataclass(frozen=True)
class Fault:
    """A fault.

    :param name: its name on the command line
    :param room: the part of the project that it is in
    :param path: the file
    :param old: the text that is replaced; it occurs once in the file
    :param new: what stands there instead
    :param breaks: what a user would meet
    :param tests: the test files that should see it
    """

    name: str
    room: str
    path: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "gap-junctions-without-seed",
        "wiring",
        "ncp_control/wiring/plan.py",
        "drawn = np.random.default_rng(self.seed).choice(",
        "drawn = np.random.default_rng(0).choice(",
        "Plans with different seeds join the same neurons by gap junctions.",
        ("tests/wiring/test_plan.py", "tests/wiring/test_properties.py"),
    ),
    Fault(
        "bounds-too-narrow",
        "neurons",
        "ncp_control/neurons/ltc/neuron.py",
        '        low = low.scatter_reduce(0, group, low, "amin")[group]\n',
        "",
        "The lower bound of an LTC's state is too high where a gap junction joins the neuron to a lower one.",
        ("tests/neurons/test_bounds.py", "tests/neurons/test_bounds_by_hand.py"),
    ),
    Fault(
        "half-a-last-stage",
        "solvers",
        "ncp_control/solvers.py",
        "k4 = slope(field, state + h * k3)",
        "k4 = slope(field, state + 0.5 * h * k3)",
        'solver="rk4" loses its order, so that steps are far less exact than promised.',
        ("tests/test_solvers.py",),
    ),
    Fault(
        "first-reset-of-a-row-ignored",
        "ops/cpu",
        "ncp_control/ops/cpu/kernels/scan.h",
        "if (p.reset && p.reset[at]) std::memset(v, 0, N * sizeof(T));",
        "if (t && p.reset && p.reset[at]) std::memset(v, 0, N * sizeof(T));",
        "A controller that is stepped alone begins an episode with the state of the last one.",
        SCANS,
    ),
    Fault(
        "sign-of-a-magnitude-lost",
        "ops/cpu",
        "ncp_control/neurons/affine/kernel.h",
        "return p.magnitude ? (f < all<T>(0) ? -d_rate : d_rate) : d_rate;",
        "return d_rate;",
        "Signed neurons are trained along a wrong gradient wherever their f is negative.",
        SCANS,
    ),
    Fault(
        "gradient-of-a-left-out",
        "ops/cpu",
        "ncp_control/neurons/affine/kernel.h",
        "            d_A[j] += q * f[j];\n",
        "",
        'The equilibria A of neurons that are solved by "rk4" never learn.',
        SCANS,
    ),
    Fault(
        "last-odd-unit-sends-nothing-back",
        "ops/cpu",
        "ncp_control/neurons/gated/kernel.h",
        "for (; u < U; ++u) add_units<1>(sum, weight + (u * count + s) * G",
        "for (; u + 1 < U; ++u) add_units<1>(sum, weight + (u * count + s) * G",
        "An LSTM or a GRU with an odd number of units is trained along a wrong gradient.",
        SCANS,
    ),
    Fault(
        "gap-junction-learns-from-one-end",
        "ops/gpu",
        "ncp_control/neurons/ltc/triton.py",
        "        values += tl.load(grads + again, again >= 0, 0.0)\n",
        "",
        "On a GPU a gap junction's gradient is that of one of its two directions.",
        ("tests/ops/gpu/test_agreement.py",),
    ),
    Fault(
        "mask-lost-in-compiled-programs",
        "ops",
        "ncp_control/ops/operator.py",
        "problem.state, elapsed, problem.reset, problem.mask)",
        "problem.state, elapsed, problem.reset, None)",
        "Under torch.compile and in exported programs, padding moves the state.",
        ("tests/ops/test_operator.py", "tests/ops/test_odd_tensors.py", "tests/ops/test_autograd.py"),
    ),
    Fault(
        "last-window-on-disk-lost",
        "data",
        "ncp_control/data/windows.py",
        "np.arange(0, rollout.steps - self.length + 1, self.stride)",
        "np.arange(0, rollout.steps - self.length, self.stride)",
        "A model is never trained on the end of a rollout that is read from disk.",
        ("tests/data/test_streaming.py",),
    ),
    Fault(
        "random-flag-one-step-early",
        "data",
        "ncp_control/data/minari_files.py",
        "np.concatenate([[False], random])",
        "np.concatenate([random, [False]])",
        "In a dataset, the step after a random action is the one that counts as random.",
        ("tests/data/test_minari_files.py",),
    ),
    Fault(
        "time-unit-not-saved",
        "dynamics",
        "ncp_control/dynamics/model.py",
        '            **({} if self.time_unit == 1.0 else {"time_unit": self.time_unit}),\n',
        "",
        "A model of irregular series predicts something else once it is loaded from its file.",
        ("tests/dynamics/test_model_file.py", "tests/dynamics/test_model.py"),
    ),
    Fault(
        "padding-row-counts",
        "series",
        "ncp_control/series/rows.py",
        "targets[steps[None] >= count[:, None]]",
        "targets[steps[None] > count[:, None]]",
        "The row behind the end of a short series is a target, told from a copy of its last row.",
        ("tests/series/test_series_fitting.py", "tests/series/test_series_model.py"),
    ),
    Fault(
        "elapsed-time-ignored",
        "rl/policies",
        "ncp_control/rl/policies/circuit.py",
        "self.rnn(features, state, elapsed, reset=starts, states=True)",
        "self.rnn(features, state, reset=starts, states=True)",
        "An agent in irregular time acts as if all observations were equally far apart.",
        ("tests/rl/policies/test_elapsed.py",),
    ),
    Fault(
        "time-limit-taken-for-an-end",
        "rl/buffers",
        "ncp_control/rl/buffers/replay.py",
        "dones = self.dones[steps, envs] * (1 - self.timeouts[steps, envs])",
        "dones = self.dones[steps, envs]",
        "SAC and TD3 with a memory learn that nothing is to be gained after a time limit.",
        ("tests/rl/buffers/test_replay.py",),
    ),
    Fault(
        "clip-range-stands-still",
        "rl/updates",
        "ncp_control/rl/updates/ppo.py",
        "clip = self.clip_range(self._current_progress_remaining)",
        "clip = self.clip_range(1.0)",
        "A clip range that a recipe lets fall stays where it begins.",
        ("tests/rl/updates/test_ppo.py",),
    ),
    Fault(
        "count-of-statistics-not-restored",
        "rl/files",
        "ncp_control/rl/files/run_state.py",
        '        statistics.count = float(moments["count"])\n',
        "",
        "A resumed training lets its next observations overthrow the normalisation.",
        ("tests/rl/test_training.py", "tests/rl/test_training_off_policy.py"),
    ),
    Fault(
        "discount-of-rewards-not-passed-on",
        "rl/recipes",
        "ncp_control/rl/recipes/building.py",
        'arguments.setdefault("gamma", read_limited("gamma", recipe.settings["gamma"], "the recipe\'s"))',
        "pass",
        "Rewards are scaled by returns with another discount than the recipe's.",
        ("tests/rl/recipes/test_building.py",),
    ),
    Fault(
        "recorded-seed-not-used",
        "distil",
        "ncp_control/distil/replaying.py",
        "spawned_seed(seed, k) if one.seed is None else one.seed)",
        "spawned_seed(seed, k))",
        "A student that clones recorded episodes sees another noise than it would have seen live.",
        ("tests/distil/test_replaying.py",),
    ),
    Fault(
        "reset-in-a-window-ignored",
        "activity recording",
        "ncp_control/activity/recording/tap.py",
        "if reset is not None and bool(reset[0, -1]):",
        "if reset is not None and inputs.shape[1] == 1 and bool(reset[0, -1]):",
        "At the beginning of an episode, an agent over History is recorded with currents that never flowed.",
        ("tests/activity/recording/test_agents.py", "tests/activity/recording/test_networks.py"),
    ),
    Fault(
        "greatest-value-shown-as-missing",
        "activity page",
        "ncp_control/activity/page/data.py",
        "/ span * (missing - 1))",
        "/ span * missing)",
        "A page leaves a gap wherever a neuron is at its highest.",
        ("tests/activity/page/test_page.py",),
    ),
    Fault(
        "elapsed-time-ignored-on-the-page",
        "laboratory",
        "ncp_control/neurons/ct_gru/neuron.js",
        "const t = elapsed / this.slowness[j];",
        "const t = 1 / this.slowness[j];",
        "A CT-GRU in the laboratory forgets as if all observations were equally far apart.",
        ("tests/activity/laboratory/test_cell_data.py", "tests/activity/laboratory/test_cells_browser.py"),
    ),
    Fault(
        "slope-divided-by-the-greater-sum",
        "audit",
        "ncp_control/neurons/ltc/ranges.py",
        "most = incoming.w * high / base",
        "most = incoming.w * high / top",
        "A certificate promises that an LTC forgets faster than it does.",
        ("tests/neurons/ranges/test_slopes.py", "tests/neurons/ranges/test_ltc.py"),
    ),
    Fault(
        "gap-conductances-unsorted",
        "export/c",
        "ncp_control/neurons/ltc/code.py",
        'array("gap", np.concatenate([gap, gap])[order])',
        'array("gap", np.concatenate([gap, gap]))',
        "On the robot, gap junctions have each other's conductances.",
        ("tests/export/test_c_cells.py",),
    ),
    Fault(
        "file-not-synchronised",
        "base",
        "ncp_control/base/files.py",
        "                if durable:\n",
        "                if durable and not content:\n",
        "After a power cut a checkpoint can be empty, although its name was already there.",
        ("tests/base/test_atomic_writes.py",),
    ),
    Fault(
        "checksum-not-compared",
        "base",
        "ncp_control/base/tensors.py",
        'if metadata["sha256"] != checksum(metadata, described, tensors):',
        'if not metadata["sha256"]:',
        "A damaged checkpoint loads without a word, with other weights.",
        ("tests/base/test_safe_tensors.py", "tests/test_checkpoint.py"),
    ),
    Fault(
        "share-by-place-on-the-machine",
        "base",
        "ncp_control/base/ranks.py",
        "numbers.tensor_split(self.count)[self.rank]",
        "numbers.tensor_split(self.count)[self.local]",
        "A fit on two machines uses half of the data twice and the other half never.",
        ("tests/base/test_ranks.py",),
    ),
    Fault(
        "best-shown-as-worst",
        "scale",
        "ncp_control/scale/table.py",
        "worst = max if kind in LOWER_IS_BETTER else min",
        "worst = min if kind in LOWER_IS_BETTER else max",
        "The table of a sweep shows the best of its runs as the worst one.",
        ("tests/scale/test_table.py",),
    ),
    Fault(
        "samples-not-asked-for",
        "cli",
        "ncp_control/cli/evaluate.py",
        "deterministic=not arguments.sample,",
        "deterministic=True,",
        "`ncp-control evaluate --sample` takes the deterministic actions all the same.",
        ("tests/rl/test_evaluating_agents.py",),
    ),
    Fault(
        "executed-action-not-reported",
        "envs",
        "envs/ncp_envs/random_actions.py",
        'return executed, {"executed_action": np.array(executed)[()], "is_random": is_random}',
        'return executed, {"executed_action": np.array(action)[()], "is_random": is_random}',
        "Rollouts hold the actions that the policy chose, not the random ones that were executed.",
        ("tests/envs/test_wrappers.py", "tests/envs/test_wrapped_actions.py"),
    ),
)
