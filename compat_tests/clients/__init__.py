"""Real clients, in several languages, against both brokers."""
