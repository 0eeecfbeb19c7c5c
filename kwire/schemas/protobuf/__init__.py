"""Protobuf: files of proto2 and proto3, as text or as a serialized descriptor, and Confluent's rules for their changes.

| module | holds |
| --- | --- |
| `parsing` | text to a tree, by the library proto-schema-parser |
| `descriptors` | a tree to a ``FileDescriptorProto``, which Google's library checks and uses |
| `trees` | a ``FileDescriptorProto`` to a tree |
| `rendering` | a tree to text, in the form in which Confluent's registry stores it |
| `differences` | what of the changes between two files is compatible |
| `schema` | all of that as a `kwire.schemas.schema.Schema` |
"""
