"""The container image on a real Docker engine."""
