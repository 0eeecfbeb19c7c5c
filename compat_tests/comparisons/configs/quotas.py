"""AlterClientQuotas and DescribeClientQuotas on both brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from compat_tests.comparisons.admin.requests import Wire
from harness.processes.brokers import wait_until
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
MARKER, MARKER_KEY = "marker of the tests", "producer_byte_rate"
MARKED = {"user": MARKER}
MARKER_FILTER = DescribeClientQuotasRequest(
    components=[ComponentData(entity_type="user", match_type=EXACT, match=MARKER)], strict=True
)

Names: TypeAlias = Mapping[str, str | None] | Sequence[tuple[str, str | None]]
"""The names of an entity by type; pairs if a type is named twice."""

Limits: TypeAlias = Mapping[str, float | None] | Sequence[tuple[str, float | None]]
"""New limits by key; None removes one."""

Filter: TypeAlias = Sequence[tuple[str, int, str | None]]


class Quotas:
    """The requests. Apache Kafka describes what it has written a moment later, so `alter` waits for it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._altered = 0

    def alter(self, *entries: tuple[Names, Limits], version: int = 1, validate_only: bool = False) -> Any:
        """[names, code, message] of each result in alphabetical order, which neither broker promises."""
        request = AlterClientQuotasRequest(entries=[_entry(*each) for each in entries], validate_only=validate_only)
        response = self._wire.call(request, version)
        if response == "closed":
            return response
        if not validate_only:
            self._await_marker()
        results = [[_names(each.entity), each.error_code, each.error_message] for each in response.entries]
        return sorted(results, key=str)

    def describe(self, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
        """[code, message, entities with their quotas in alphabetical order, or None]."""
        request = DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=kind, match_type=match, match=text) for kind, match, text in components
            ],
            strict=strict,
        )
        response = self._wire.call(request, version)
        if response == "closed":
            return response
        entries = None if response.entries is None else _sorted(response.entries)
        return [response.error_code, response.error_message, entries]

    def clear(self) -> None:
        """Remove all quotas."""
        found = self.describe()[2]
        for at in range(0, len(found), 100):
            self.alter(*((names, [(key, None) for key, _ in quotas]) for names, quotas in found[at : at + 100]))
        self._wire.call(AlterClientQuotasRequest(entries=[_entry(MARKED, {MARKER_KEY: None})]), 1)
        wait_until(lambda: not self._wire.call(MARKER_FILTER, 1).entries, 20, "no marker")

    def _await_marker(self) -> None:
        self._altered += 1
        value = 1e9 + self._altered
        self._wire.call(AlterClientQuotasRequest(entries=[_entry(MARKED, {MARKER_KEY: value})]), 1)

        def there() -> bool:
            entries = self._wire.call(MARKER_FILTER, 1).entries
            return [each.value for entry in entries for each in entry.values] == [value]

        wait_until(there, 20, "altered quotas")


def _entry(names: Names, limits: Limits) -> EntryData:
    pairs = names.items() if isinstance(names, Mapping) else names
    changes = limits.items() if isinstance(limits, Mapping) else limits
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in pairs],
        ops=[OpData(key=key, value=0.0 if value is None else value, remove=value is None) for key, value in changes],
    )


def _names(entity: Any) -> list[tuple[str, str | None]]:
    return sorted((each.entity_type, each.entity_name) for each in entity)


def _sorted(entries: Any) -> list[Any]:
    found = [[_names(each.entity), sorted((one.key, one.value) for one in each.values)] for each in entries]
    return sorted((each for each in found if ("user", MARKER) not in each[0]), key=str)
