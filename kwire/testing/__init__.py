"""For tests: a raw protocol client, and the deterministic simulation of a whole cluster in one process."""
