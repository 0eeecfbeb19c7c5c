"""Ranges of offsets: which records a query reads, how many at once, and in how many tasks. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from kwire.arrow.ranges import Partition, Positions, Range


def ranges(starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> list[Range]:
    """What lies between two positions, without partitions in which nothing does. In the order of partitions."""
    found = [Range(*each, starts[each], ends[each]) for each in sorted(ends) if each in starts]
    return [each for each in found if each.size > 0]


def divided(whole: list[Range], min_partitions: int) -> list[Range]:
    """The same offsets in at least as many ranges if there are so many; large ones are divided into equal parts."""
    total = sum(each.size for each in whole)
    if min_partitions <= len(whole) or total == 0:
        return whole
    found = []
    for each in whole:
        parts = min(each.size, max(1, math.floor(each.size / total * min_partitions + 0.5)))
        bounds = [each.start + each.size * index // parts for index in range(parts + 1)]
        found += [each._replace(start=low, end=high) for low, high in pairwise(bounds)]
    return found


def limited(starts: Mapping[Partition, int], ends: Mapping[Partition, int], at_most: int) -> Positions:
    """Ends that are at most so many offsets away from the starts, each partition in proportion to what it has; a
    partition that has something gives at least one, as in Spark's source."""
    sizes = {each: ends[each] - starts.get(each, ends[each]) for each in ends}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= at_most:
        return dict(ends)
    found = {}
    for each, end in ends.items():
        share = at_most * (sizes[each] / total) if sizes[each] > 0 else 0.0
        taken = math.ceil(share) if share < 1 else math.floor(share)
        found[each] = min(end, end - sizes[each] + taken) if sizes[each] > 0 else end
    return found


def total(starts: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int:
    """The number of offsets between two positions."""
    return sum(max(0, end - starts.get(each, end)) for each, end in ends.items())
