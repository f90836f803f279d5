"""Everything that touches a disk: atomic writes, tensors and arrays read safely, descriptions, run folders, cards."""
