"""Real brokers, real clients, real faults: the parts of `scripts/chaos_campaign.py`."""
