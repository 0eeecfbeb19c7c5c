"""Hostile byte streams against the TLS of a listener: before, in and after the handshake."""
