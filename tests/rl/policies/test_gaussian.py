"""Gaussian actions have the numbers of Stable-Baselines3's distribution."""

import torch
from stable_baselines3.common.distributions import DiagGaussianDistribution

from ncp_control.rl.policies.gaussian import draw, entropies, log_probabilities


def test_actions_log_probabilities_and_entropies_are_those_of_the_distribution() -> None:
    mean, log_std = torch.randn(7, 5), torch.randn(5, requires_grad=True)
    stock = DiagGaussianDistribution(5).proba_distribution(mean, log_std)
    torch.manual_seed(3)
    expected = stock.sample()
    torch.manual_seed(3)
    actions = draw(mean, log_std.exp())
    # torch rounds functions of a vector and of its copies in every row, as the distribution has them, otherwise
    torch.testing.assert_close(actions, expected)
    torch.testing.assert_close(log_probabilities(actions, mean, log_std.exp()), stock.log_prob(actions))
    torch.testing.assert_close(entropies(log_std, 7), stock.entropy())
    ours, theirs = (
        torch.autograd.grad((found[0] + found[1]).sum(), log_std)[0]
        for found in (
            (log_probabilities(actions.detach(), mean, log_std.exp()), entropies(log_std, 7)),
            (stock.log_prob(actions.detach()), stock.entropy()),
        )
    )
    torch.testing.assert_close(ours, theirs)
