"""A module for each kind of thing that `ncp-control describe` knows: `describe` returns JSON values, `show` prints."""
