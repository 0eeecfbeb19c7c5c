"""The command line on kwire and on Apache Kafka: the same commands, the same output."""
