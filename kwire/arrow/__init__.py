"""Topics as Arrow tables: ranges of offsets, read from brokers or straight from segment files.

`sizes` and `decoding` decode record batches without an object for each record (three to eight million records/s on a
core), `rows` makes Arrow batches of what they find, `brokers` fetches a range from a cluster, `files` reads a range of
a data directory without a broker; `ranges` and `reading` say what is wanted and how. What lives elsewhere: which
offsets a query means, and what becomes of the rows (`kwire.spark`, `kwire.sql`, `kwire.archive`).
"""
