"""The closed form of the liquid neuron."""
