"""A cell with an LSTM around it."""
