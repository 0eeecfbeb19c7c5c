"""Reading data directories of kwire and of Apache Kafka without a broker, in parallel.

What is shown is what a broker would show: nothing above the high watermark, nothing below the log start offset, and
with read_committed nothing of a transaction that is open or was aborted. The directory may be in use: then the
checkpoints say less than the broker knows, so less is shown, never more. Nothing is written to it.

`directory` says what there is, `segments` reads a range of offsets.
"""
