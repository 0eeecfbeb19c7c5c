"""Transactions on both brokers: the same answers, the same visible state, and whole output under kills."""
