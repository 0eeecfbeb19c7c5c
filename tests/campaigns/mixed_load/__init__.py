"""Tests of the campaign of mixed load."""
