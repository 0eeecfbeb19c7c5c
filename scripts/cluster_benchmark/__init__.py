"""The parts of `scripts/cluster_bench.py`: three brokers of kwire beside three of Apache Kafka."""
