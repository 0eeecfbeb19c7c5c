"""Test suites that other projects wrote for Apache Kafka, run unmodified against kwire."""
