"""Campaigns that compare the pure parts of streams groups (KIP-1071) with the classes of Apache Kafka."""
