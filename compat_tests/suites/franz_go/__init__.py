"""franz-go's own tests (see `suite.py`)."""
