"""Where the metrics of clients go: to an OTLP/HTTP endpoint (KIP-714)."""
