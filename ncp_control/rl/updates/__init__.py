"""Updates of plain networks with gradients written by hand, which spare a CPU most of what autograd costs."""
