"""Payloads with the id of a schema as Arrow columns, in the types of a reader's schema.

    shape = shape_of(schema)                     # an Arrow type, and how values of any writer's schema get it
    column = PayloadColumn(shape, lookup.schema)
    column.typed(binary)                         # Arrow binary in, the typed column out; what does not fit is null

`avro` and `projection`, `json_schema` and `protobuf` make the shapes of the three types of schemas; `fields` has what
they share. A schema that no Arrow type can hold (a type within itself, an unnamed choice) is JSON: `JsonShape`.
What lives elsewhere: schemas and the wire format (`kwire.schemas`), and who fetches them (`kwire.cli.schemas`).
"""
