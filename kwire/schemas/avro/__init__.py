"""Avro: parsing, canonical texts and compatibility as Apache Avro's Java library has them; values by fastavro.

| module | holds |
| --- | --- |
| `model` | types as objects |
| `parsing` | JSON to types, within limits |
| `defaults` | whether a default fits its type |
| `rendering` | types to JSON: Java's ``toString``, a normalized form, and all that fastavro needs |
| `compatibility` | Java's ``SchemaCompatibility`` |
| `values` | bytes to values and back |
| `schema` | all of that as a `kwire.schemas.schema.Schema` |
"""
