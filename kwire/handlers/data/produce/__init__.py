"""Produce: its handler, the fast path, and the verification of transactional batches."""
