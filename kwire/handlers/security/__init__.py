"""Handlers of credentials and tokens."""
