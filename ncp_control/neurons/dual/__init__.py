"""The liquid neuron with two weights a synapse."""
