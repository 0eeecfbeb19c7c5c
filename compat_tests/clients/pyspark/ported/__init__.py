"""The cases of Spark's own suites for its Kafka source, ported to Python for ``format("kwire")``.

Each case carries the marker `original`, with the suite and the name of the test that it was ported from, and asserts
what that test asserts, on Apache Kafka and on kwire. Where Spark's test looks into Spark's own classes, the case looks
at what kwire has in their place. `support.originals` names the tests that have no counterpart, each with its reason.

``python -m compat_tests.clients.pyspark.ported`` runs all; with the compatibility tests run those marked `quick`.
"""
