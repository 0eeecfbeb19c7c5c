"""Campaigns run without a log here, as they do from the command line."""

from tests.simulation.conftest import quiet

__all__ = ["quiet"]
