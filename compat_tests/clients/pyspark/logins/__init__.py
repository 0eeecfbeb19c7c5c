"""Spark logs in: with passwords, with tokens that brokers or others issue, and is refused with wrong ones."""
