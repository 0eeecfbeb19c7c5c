"""Tests of `kwire.security`."""
