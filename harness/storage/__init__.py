"""Object storage for tests and campaigns."""
