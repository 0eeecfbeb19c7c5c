"""Workloads on brokers that are set up in their own way: with TLS, with an authorizer, one for each core."""
