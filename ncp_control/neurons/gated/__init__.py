"""LSTM and GRU, with a wiring."""
