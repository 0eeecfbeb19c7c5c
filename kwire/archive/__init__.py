"""Topics kept as tables: Parquet files, Delta and Iceberg tables, and the way back.

A table says by itself which offsets it has (by names of files, or by its own commits), so what was killed at any moment
goes on where the table ends. `sources` reads a topic from brokers or a data directory, `targets` are the formats,
`archiving` moves records from one to the other. What lives elsewhere: reading records as Arrow (`kwire.arrow`).
"""
