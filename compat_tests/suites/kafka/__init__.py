"""Kafka's own integration tests (see `suite.py`)."""
