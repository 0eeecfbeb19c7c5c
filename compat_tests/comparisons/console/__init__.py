"""The HTTP API of `kwire console` on kwire and on Apache Kafka: the same requests, the same responses."""
