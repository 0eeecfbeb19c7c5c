"""Kafka Streams with exactly_once_v2: exact results while the application and the broker are killed."""
