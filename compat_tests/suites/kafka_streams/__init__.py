"""Kafka Streams' own integration tests (see `suite.py`)."""
