"""Simulated clusters of many brokers and partitions: what each step of their life costs."""
