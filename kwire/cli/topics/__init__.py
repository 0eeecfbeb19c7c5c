"""``kwire topic``: topics of a running cluster."""
