"""Adopting damaged directories of Apache Kafka."""
