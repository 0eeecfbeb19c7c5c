"""The classic group protocol and committed offsets."""
