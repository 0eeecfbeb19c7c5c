"""Tests of the coordinators. `bench` and `consumer_bench` drive the state machines, `fakes` replace the log."""
