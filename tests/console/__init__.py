"""Tests of `kwire.console`."""
