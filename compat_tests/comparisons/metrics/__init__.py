"""The metrics endpoint beside the JMX exporter on Apache Kafka."""
