"""Clients that send garbage, overload the broker or do not read their responses."""
