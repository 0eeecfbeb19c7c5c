"""Administration of topics, partitions and features by raw requests."""
