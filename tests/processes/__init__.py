"""Tests of `harness.processes`, on which the other tests rely."""
