"""What `ncp-control describe` says: a module for each kind of thing, with `describe` (as JSON values) and `show`."""
