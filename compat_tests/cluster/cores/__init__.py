"""`kwire start --brokers auto` with real clients."""
