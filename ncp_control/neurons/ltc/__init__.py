"""The liquid neuron of 2018: one current a synapse, with a reversal potential."""
