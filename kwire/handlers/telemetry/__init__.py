"""Client telemetry (KIP-714): clients ask which of their metrics are wanted, and push them."""
