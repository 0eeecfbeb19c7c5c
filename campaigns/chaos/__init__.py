"""Chaos: real brokers and real clients while brokers are killed, paused and cut off (``python -m campaigns.chaos``)."""
