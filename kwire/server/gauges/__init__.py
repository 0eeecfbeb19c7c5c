"""Metrics of the broker as a whole, which are computed when they are read, and what has to be measured for them."""
