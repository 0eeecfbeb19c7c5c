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


def divided(whole: list[Range], min_partitions: int, max_records: int = 0) -> list[Range]:
    """The same offsets in ranges of at most ``max_records`` (0: any number), and in about ``min_partitions`` of them or
    more; large ranges are divided into equal parts. The same parts as those of Spark's source."""
    if max_records:
        whole = [part for each in whole for part in _parts(each, -(-each.size // max_records))]
    sizes = [each.size for each in whole]
    if min_partitions <= len(whole) or not any(sizes):
        return whole
    # Ranges that stay whole take one of the parts each; the others share the rest in proportion to their sizes.
    total = sum(sizes)
    large = [_share(size, total, min_partitions) > 1 for size in sizes]
    rest = max(1, min_partitions - large.count(False))
    total = sum(size for size, is_large in zip(sizes, large, strict=True) if is_large)
    found = []
    for each, is_large in zip(whole, large, strict=True):
        found += _parts(each, _share(each.size, total, rest)) if is_large else [each]
    return found


def _share(size: int, total: int, parts: int) -> int:
    return max(1, math.floor(size / total * parts + 0.5))


def _parts(whole: Range, count: int) -> list[Range]:
    """A range in so many parts, or in as many as it has offsets."""
    count = min(count, whole.size)
    bounds = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [whole._replace(start=low, end=high) for low, high in pairwise(bounds)]


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
