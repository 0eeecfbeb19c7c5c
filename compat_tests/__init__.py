"""Tests that run on kwire and on Apache Kafka, started as processes: kwire must behave as Apache Kafka does."""
