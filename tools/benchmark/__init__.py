"""kwire beside Apache Kafka on this machine: workloads, load generator, results, picture (`scripts/bench`)."""
