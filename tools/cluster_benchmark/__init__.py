"""The parts of `tools/cluster_benchmark/__main__.py`: three brokers of kwire beside three of Apache Kafka."""
