"""Spark's Kafka source and sink, used through PySpark."""
