"""What `ncp-control describe` says: one module for each kind of thing, with `describe`, JSON values, and `show`."""
