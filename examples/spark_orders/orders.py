"""Orders and customers, made from a seed, and the totals that any correct pipeline must find in them.

Everything is a pure function of (seed, number), so that the producer, a producer started again and the check agree
without telling each other anything. What lives elsewhere: writing (`producer`), the Spark job (`pipeline`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

CUSTOMERS: Final = 1_000
REGIONS: Final = ("africa", "america", "asia", "europe", "oceania")
FIRST_ORDER_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ORDER_INTERVAL_MS: Final = 60
WINDOW_MS: Final = 3_600_000
_MASK: Final = 2**64 - 1


class Order(NamedTuple):
    """One order; ``amount_cents`` in hundredths of a currency unit, ``time_ms`` since 1970."""

    order_id: int
    customer_id: int
    amount_cents: int
    time_ms: int


class Total(NamedTuple):
    """What is to be found for one (window, region)."""

    orders: int
    amount_cents: int


def _mix(value: int) -> int:
    """SplitMix64's output function: numbers in a row give values that look random."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def order(seed: int, number: int) -> Order:
    """Order ``number`` (from 0) of a seed."""
    bits = _mix((seed << 32) ^ number)
    time_ms = FIRST_ORDER_MS + number * ORDER_INTERVAL_MS
    return Order(number, bits % CUSTOMERS, 100 + (bits >> 20) % 9_900, time_ms)


def region(customer_id: int) -> str:
    """Where a customer lives."""
    return REGIONS[_mix(customer_id) % len(REGIONS)]


def order_json(value: Order) -> bytes:
    """The record value of an order."""
    return json.dumps(value._asdict(), separators=(",", ":")).encode()


def customers() -> Iterator[tuple[bytes, bytes]]:
    """Key and value of every record of the customers topic."""
    for customer_id in range(CUSTOMERS):
        yield (
            str(customer_id).encode(),
            json.dumps({"customer_id": customer_id, "region": region(customer_id)}).encode(),
        )


def window_start_ms(time_ms: int) -> int:
    """The beginning of the hour that an order belongs to."""
    return time_ms - time_ms % WINDOW_MS


def expected_totals(seed: int, count: int) -> dict[tuple[int, str], Total]:
    """Orders and amounts for each (window start in ms, region) of the first ``count`` orders."""
    regions = [region(customer_id) for customer_id in range(CUSTOMERS)]
    orders: defaultdict[tuple[int, str], int] = defaultdict(int)
    amounts: defaultdict[tuple[int, str], int] = defaultdict(int)
    for number in range(count):
        _, customer_id, amount_cents, time_ms = order(seed, number)
        key = (window_start_ms(time_ms), regions[customer_id])
        orders[key] += 1
        amounts[key] += amount_cents
    return {key: Total(orders[key], amounts[key]) for key in orders}
