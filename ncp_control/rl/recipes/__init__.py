"""Recipes: descriptions in YAML of how agents are trained, and the environments and models made from them."""
