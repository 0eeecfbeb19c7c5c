"""Metrics that are computed when they are read."""
