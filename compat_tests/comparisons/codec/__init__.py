"""Messages and record batches against Kafka's Java classes."""
