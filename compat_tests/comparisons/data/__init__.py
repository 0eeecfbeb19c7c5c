"""Produce, Fetch and ListOffsets by raw requests."""
