"""``kwire sql``: topics as tables, queried by DuckDB over Arrow, from brokers or from data directories.

`topics` reads what a query needs of a topic: which offsets, which segments, and `key` and `value` in their types.
`session` is one DuckDB database with a view for each topic that a statement names; `results` writes rows as tables,
JSON, CSV, Parquet or records; `prompt` is the interactive side and `continuous` hands a query to Spark. What lives
elsewhere: reading offsets as Arrow batches (`kwire.arrow`), and SQL itself, which is DuckDB's (or Spark's).
"""
