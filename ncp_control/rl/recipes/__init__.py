"""Recipes: how an agent is trained, as YAML, and the environments and models that are made from them."""
