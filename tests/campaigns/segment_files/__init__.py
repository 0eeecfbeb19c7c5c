"""Segment files read beside busy brokers (`campaigns.segment_files`)."""
