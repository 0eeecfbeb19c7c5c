"""Where a walk over two schemas is, what it has found, and which of that is compatible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kwire.schemas.json_schema.kinds import Node
from kwire.schemas.limits import Budget
from kwire.schemas.schema import Incompatibility

COMPATIBLE: Final = frozenset(
    [
        "SCHEMA_REMOVED",
        "TYPE_EXTENDED",
        "MAX_LENGTH_INCREASED",
        "MAX_LENGTH_REMOVED",
        "MIN_LENGTH_DECREASED",
        "MIN_LENGTH_REMOVED",
        "PATTERN_REMOVED",
        "MAXIMUM_INCREASED",
        "MAXIMUM_REMOVED",
        "MINIMUM_DECREASED",
        "MINIMUM_REMOVED",
        "EXCLUSIVE_MAXIMUM_INCREASED",
        "EXCLUSIVE_MAXIMUM_REMOVED",
        "EXCLUSIVE_MINIMUM_DECREASED",
        "EXCLUSIVE_MINIMUM_REMOVED",
        "MULTIPLE_OF_REDUCED",
        "MULTIPLE_OF_REMOVED",
        "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED",
        "REQUIRED_ATTRIBUTE_REMOVED",
        "DEPENDENCY_ARRAY_NARROWED",
        "DEPENDENCY_ARRAY_REMOVED",
        "DEPENDENCY_SCHEMA_REMOVED",
        "MAX_PROPERTIES_INCREASED",
        "MAX_PROPERTIES_REMOVED",
        "MIN_PROPERTIES_DECREASED",
        "MIN_PROPERTIES_REMOVED",
        "ADDITIONAL_PROPERTIES_ADDED",
        "ADDITIONAL_PROPERTIES_EXTENDED",
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "MAX_ITEMS_INCREASED",
        "MAX_ITEMS_REMOVED",
        "MIN_ITEMS_DECREASED",
        "MIN_ITEMS_REMOVED",
        "UNIQUE_ITEMS_REMOVED",
        "ADDITIONAL_ITEMS_ADDED",
        "ADDITIONAL_ITEMS_EXTENDED",
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ENUM_ARRAY_EXTENDED",
        "COMBINED_TYPE_EXTENDED",
        "PRODUCT_TYPE_NARROWED",
        "SUM_TYPE_EXTENDED",
        "NOT_TYPE_NARROWED",
    ]
)
"""Changes after which everything that was accepted still is."""

Compare = Callable[["Context", Node | None, Node | None], None]


class Context:
    """A walk. ``compare`` is the walk itself, for the rules of each kind, which call it for what is inside."""

    def __init__(self, compare: Compare, budget: Budget, path: str = "#", entered: set[tuple[int, int]] | None = None):
        self.found: list[Incompatibility] = []
        """All changes so far, compatible ones as well."""
        self._compare = compare
        self._budget = budget
        self._path = path
        self._entered: set[tuple[int, int]] = set() if entered is None else entered

    @property
    def is_compatible(self) -> bool:
        """Whether every change is."""
        return all(each.kind in COMPATIBLE for each in self.found)

    def compare(self, original: Node | None, update: Node | None) -> None:
        """Compare what is inside."""
        self._budget.take()
        self._compare(self, original, update)

    def add(self, kind: str, word: str = "") -> None:
        """Note a change here, or at a word of what is here."""
        path = f"{self._path}/{word}" if word else f"{self._path}/" if self._path == "#" else self._path
        self.found.append(Incompatibility(kind, path, ""))

    def apart(self) -> Context:
        """A walk from here whose changes are looked at before they count."""
        return Context(self._compare, self._budget, self._path, set(self._entered))

    def take(self, other: Context) -> None:
        """Let the changes of a walk apart count."""
        self.found += other.found

    @contextmanager
    def within(self, word: str) -> Iterator[None]:
        """Go to a word of what is here."""
        before, self._path = self._path, f"{self._path}/{word}"
        try:
            yield
        finally:
            self._path = before

    @contextmanager
    def entered(self, original: Node, update: Node) -> Iterator[bool]:
        """Go into two schemas; False if the walk is within both already, by way of a reference."""
        pair = (id(original.value), id(update.value))
        if pair in self._entered:
            yield False
            return
        self._entered.add(pair)
        try:
            yield True
        finally:
            self._entered.discard(pair)
