"""Apache Kafka's own metadata: the log and the snapshots of KRaft, which are read when a data directory is adopted."""
