"""Streams groups (KIP-1071): the same raw requests to Apache Kafka and kwire."""
