"""Transactions by raw requests, Kafka's own tools and librdkafka."""
