"""Names of topics, groups and transactional ids for one test, the same on both broker kinds."""

from __future__ import annotations


class Names:
    """``new_name("group")``: a fresh name, made of a prefix, the test's name and a count."""

    def __init__(self, test: str) -> None:
        self._test = test
        self._count = 0

    def __call__(self, prefix: str = "t") -> str:
        self._count += 1
        return f"{prefix}-{self._test}-{self._count}"
