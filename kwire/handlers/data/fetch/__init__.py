"""Fetch: its handler, the reading of partitions, and fetch sessions."""
