"""Consoles (`kwire.console`) for tests: in the test's own process, asked without sockets."""
