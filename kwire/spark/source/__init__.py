"""The source: partitions of Kafka topics become rows with the columns of Spark's Kafka source.

`options` reads what the user gave, `columns` which columns are wanted, `positions` asks the cluster which partitions
and offsets that means, `planning` makes ranges of offsets of it (pure), `reading` reads a range in a task;
`batch_reader`, `readers`, `files_reader` and, from PySpark 4.2 on, `limited_reader` are what PySpark calls.
"""
