"""Tests of timers and Java's hashing."""
