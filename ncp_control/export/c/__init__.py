"""An agent as C99: one step of it as a function that allocates nothing and needs no library but math.h."""
