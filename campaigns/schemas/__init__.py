"""Campaigns of schemas."""
