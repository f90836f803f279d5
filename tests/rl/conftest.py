"""The tests of agents need the extra `rl`: without its packages they are not collected."""

from importlib.util import find_spec

NEEDED = ("gymnasium", "sb3_contrib", "stable_baselines3")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["*"]
