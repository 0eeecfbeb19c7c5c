"""Mutants: promises broken on purpose, and the campaigns that must notice (``python -m campaigns.mutants``)."""
