"""librdkafka's own tests (see `suite.py`)."""
