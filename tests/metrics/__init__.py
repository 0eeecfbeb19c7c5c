"""Tests of `kwire.metrics` and of the broker behind it."""
