"""Tests of `kwire.cli.bench`."""
