"""The order pipeline: a PySpark structured streaming job on kwire (or any Kafka), from producer to checked result.

`orders` makes the data and computes the right result; `producer` writes it; `pipeline` is the Spark job; `demo` runs
all of it, kills the job halfway and compares what comes out. Nothing here is needed by the broker.
"""
