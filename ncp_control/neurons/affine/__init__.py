"""Neurons whose step is affine in their state: the liquid one of 2021, CT-RNN, Neural ODE."""
