"""Topics as Arrow tables: ranges of offsets, read from brokers or straight from segment files.

`rows` makes Arrow batches of decoded records, `brokers` fetches a range from a cluster, `files` reads a range of a data
directory without a broker; `ranges` and `reading` say what is wanted and how. What lives elsewhere: which offsets a
query means, and what becomes of the rows (`kwire.spark`, `kwire.sql`, `kwire.archive`).
"""
