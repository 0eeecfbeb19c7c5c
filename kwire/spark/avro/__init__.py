"""Avro columns in Confluent's wire format, by the schemas of a registry: `functions` are what users call, `types` has
Spark's types and values of the shapes of `kwire.arrow.payloads`, `encoding` the way back. No jars, and no pandas."""
