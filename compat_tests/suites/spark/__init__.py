"""Spark's own Kafka suites (see `suite.py`)."""
