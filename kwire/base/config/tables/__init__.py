"""What Kafka's own definitions say, as plain tuples, one module for each subject."""
