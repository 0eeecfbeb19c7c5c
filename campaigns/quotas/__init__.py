"""Campaigns of quotas."""
