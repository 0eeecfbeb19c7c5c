"""``kwire group``: consumer groups of a running cluster."""
