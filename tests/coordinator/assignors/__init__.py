"""Assignors. That their results are Kafka's: `compat_tests`."""
