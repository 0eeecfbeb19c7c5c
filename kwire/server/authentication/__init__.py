"""What comes before a client's first request on a SASL listener: the login, and later its repetition (KIP-368)."""
