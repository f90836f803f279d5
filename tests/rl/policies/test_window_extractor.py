"""What critics read that have no memory but see the last few observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from helpers.memory_tasks import joined
from helpers.off_policy_models import build, envs, of_kinds


@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("as_dict", [False, True])
@of_kinds
def test_it_reads_the_last_observations_and_the_actions_between_them(kind: Any, as_dict: bool, window: int) -> None:
    model = build(kind, env=envs(as_dict), critic="window", critic_window=window, gradient_steps=0)
    model.learn(240)
    buffer = model.replay_buffer
    seen = joined({key: torch.as_tensor(value) for key, value in buffer.observations.items()} if as_dict
                  else torch.as_tensor(buffer.observations))  # fmt: skip
    acted = {tuple(row): buffer.actions[step, env]
             for step in range(buffer.size()) for env, row in enumerate(seen[step].int().tolist())}  # fmt: skip

    def expected(environment: int, episode: int, step: int) -> Any:
        parts = [np.array([environment, episode, step], dtype=np.float32)]
        for past in range(step - 1, step - window, -1):
            known = past >= 0
            parts += [np.array([environment, episode, past], dtype=np.float32) * known]
            parts += [acted[environment, episode, past] if known else np.zeros(2, dtype=np.float32)]
        return np.concatenate(parts)

    batch = model.replay_buffer.sample(200)
    extractor = model.critic.features_extractor
    now, after = extractor(batch.observations), extractor(batch.next_observations)
    trained = joined(batch.observations.observations)[:, 3:].flatten(0, 1).int().tolist()
    for row, here, there in zip(trained, now.numpy(), after.numpy(), strict=True):
        np.testing.assert_array_equal(here, expected(*row))
        np.testing.assert_array_equal(there, expected(row[0], row[1], row[2] + 1))
    assert sum(step >= window for _, _, step in trained) > 20


def test_a_burn_in_that_is_shorter_than_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match="critics that read 5 observations need a burn_in of at least 4, not 3"):
        build(critic="window", critic_window=5)


@pytest.mark.parametrize("window", [0, 2.5, "five"])
def test_a_window_that_is_no_number_of_observations_is_refused(window: Any) -> None:
    with pytest.raises(ValueError, match="critic_window is a number of observations, at least 1"):
        build(critic="window", critic_window=window)
