"""Logins and TLS with real clients."""
