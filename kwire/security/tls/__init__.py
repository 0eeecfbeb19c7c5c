"""TLS from Kafka's properties: key stores and trust stores of all formats, cipher suites, contexts of `ssl`."""
