"""The authentication of clients on SASL listeners: the login, and later the reauthentication (KIP-368)."""
