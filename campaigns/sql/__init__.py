"""Campaigns of `kwire sql`."""
