"""This broker's replicas: leading, following, the ISR, throttling, and connections to other brokers."""
