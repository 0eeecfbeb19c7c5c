"""Wiring and lifecycle: builds the parts of a broker, starts them in order and stops them in reverse."""
