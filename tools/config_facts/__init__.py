"""Kafka's configuration definitions, as facts read from its jars, and the modules generated from them."""
