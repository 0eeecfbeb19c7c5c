"""Looking into processes: what they use, and what a client that does not go on is waiting for."""
