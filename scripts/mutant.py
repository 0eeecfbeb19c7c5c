"""What a mutant is: a promise broken on purpose, and the campaign that has to notice. The mutants themselves are in
`mutants` (logs) and `transaction_mutants`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Campaign = Callable[[int, int], tuple[Any, list[str]]]
"""First seed and count -> what happened, and the failures."""


@dataclass(frozen=True)
class Mutant:
    """A name, what it breaks, how, and the campaign that must notice within so many seeds."""

    breaks: str
    apply: Callable[[], Any]
    campaign: Campaign
    seeds: int
