"""Throttle times and rates of clients with quotas, on both brokers."""
