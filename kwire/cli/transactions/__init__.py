"""``kwire txn``: transactions of a running cluster."""
