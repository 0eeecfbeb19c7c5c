"""``kwire config``: configurations of topics, brokers, groups and clients' metrics."""
