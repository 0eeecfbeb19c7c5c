"""Access control: the same requests to Apache Kafka and kwire, both with an authorizer."""
