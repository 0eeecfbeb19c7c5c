"""What a mutant is: a promise broken on purpose by a patch, and the campaign that must notice.

The mutants are in `logs`, `transactions`, `schedules`, `cluster`, `logins`, `tls`, `acls`, `acl_changes`, `access` and
`quotas`; the command line is in `__main__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

Campaign = Callable[[int, int], tuple[Any, list[str]]]
"""A function of the first seed and the number of seeds; returns what happened, and the failures."""

AT_A_TIME = 10


@dataclass(frozen=True)
class Mutant:
    """What is broken, the patch that breaks it, and the campaign that must notice within ``seeds`` seeds."""

    breaks: str
    apply: Callable[[], Any]
    campaign: Campaign
    seeds: int

    def finding(self, first: int = 0) -> str | None:
        """The campaign's first finding from seed ``first`` on, with the patch applied; None if the mutant survives."""
        with self.apply():
            for begin in range(first, first + self.seeds, AT_A_TIME):
                failures = self.campaign(begin, AT_A_TIME)[1]
                if failures:
                    return failures[0]
        return None


@contextmanager
def together(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    """Several patches as one."""
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield
