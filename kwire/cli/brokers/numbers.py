"""How many brokers there can be. No other module here is imported for a single broker."""

from __future__ import annotations

from typing import Final

AUTO: Final = 0
"""The number of brokers that stands for one per core."""

BROKERS_MAX: Final = 16
"""The most brokers of one host: each watches all others, and all of them write to one metadata store."""
