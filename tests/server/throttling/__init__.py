"""Requests of clients with quotas."""
