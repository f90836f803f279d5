"""Everything that touches a disk: atomic writes, safe tensors and arrays, kinds of files, run folders, cards."""
