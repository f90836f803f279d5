"""Long pieces of work, each in a folder of its own, which can be stopped at any moment and resumed."""
