"""The picture of the audit's report."""
