"""Requests that take several turns of the event loop."""
