"""Kafka's protocol as bytes: messages, headers, record batches and compression. No I/O and no event loop."""
