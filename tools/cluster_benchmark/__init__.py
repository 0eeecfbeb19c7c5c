"""Three brokers of kwire beside three of Apache Kafka (``python -m tools.cluster_benchmark``)."""
