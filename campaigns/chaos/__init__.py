"""Real brokers, real clients, real faults: the parts of `campaigns/chaos/campaign.py`."""
