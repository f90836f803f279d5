"""The liquid neuron with two weights per synapse."""
