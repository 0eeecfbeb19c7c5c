"""Adopting a data directory that Apache Kafka wrote: its topics, and what its metadata log says."""
