"""Quotas of clients: for whom they are, and which limit applies. Pure: imports `kwire.base` only."""
