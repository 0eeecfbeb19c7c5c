"""Appends of a broker: what is written together."""
