"""`kwire sql` measured beside Spark SQL and DuckDB: ``python -m tools.sql_speed``."""
