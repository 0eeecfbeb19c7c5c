"""The key of a partition in every table that is not about one topic only."""

from __future__ import annotations

TopicPartition = tuple[str, int]
"""A topic's name and a partition index."""
