"""Campaigns of access control lists."""
