"""kafka-python's own integration tests (see `suite.py`)."""
