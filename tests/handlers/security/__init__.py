"""Tests of the handlers of credentials and tokens."""
