"""Campaigns of pipelines: what `kwire audit` finds, and what the exactly-once sink survives."""
