"""JSON Schema: drafts 4 to 2020-12, and what of their changes is compatible, by Confluent's rules.

| module | holds |
| --- | --- |
| `kinds` | what kind a schema is (object, number, union …), with ``$ref`` resolved |
| `differences` | the walk over two schemas |
| `objects`, `arrays` | the rules for objects and arrays |
| `values` | the rules for numbers, texts and enumerations |
| `schema` | all of that as a `kwire.schemas.schema.Schema` |
"""
