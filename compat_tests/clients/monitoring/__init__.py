"""What monitors brokers and clients: Prometheus, and collectors of clients' metrics."""
