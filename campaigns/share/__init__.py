"""Random operations on share partitions: against a model per offset, and against Kafka's own class."""
