"""How often each error occurs in a response, for the metric ErrorsPerSec (Kafka's `AbstractResponse.errorCounts`).

As in Kafka, every error code counts: that of the response as a whole, and those of its topics, partitions, groups and
so on; NONE too. A function is compiled for each response and version at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.codec.message import Message, Struct
from kwire.codec.schema import Field, fields_of
from kwire.codec.source import Source

ErrorCounter = Callable[[Any, dict[int, int]], None]
"""Adds the errors of a response to the counts of a dictionary, by code; it has a count of NONE from the start."""

_NOT_COUNTED: Final = frozenset(
    {
        ("AssignReplicasToDirsResponse", "PartitionData", "error_code"),
        ("CreateTopicsResponse", "CreatableTopicResult", "topic_config_error_code"),
        ("DeleteAclsResponse", "DeleteAclsMatchingAcl", "error_code"),
        ("DescribeUserScramCredentialsResponse", "DescribeUserScramCredentialsResponse", "error_code"),
        ("MetadataResponse", "MetadataResponse", "error_code"),
        ("ShareFetchResponse", "PartitionData", "acknowledge_error_code"),
    }
)
"""Response, struct and field of codes that Kafka does not count."""

_COUNTED_ON_FAILURE: Final = frozenset(
    {
        "AddRaftVoterResponse",
        "DescribeShareGroupOffsetsResponseGroup",
        "FetchSnapshotResponse",
        "UnregisterBrokerResponse",
        "UpdateRaftVoterResponse",
    }
)
"""Structs whose own NONE Kafka does not count."""

_COUNTED_IF_CARRIED: Final = frozenset({"AddPartitionsToTxnResponse", "FindCoordinatorResponse", "OffsetFetchResponse"})
"""Responses whose own code does not count in versions that cannot carry it; elsewhere it counts as NONE."""


_compiled: Final[dict[tuple[type[Message], int], ErrorCounter]] = {}


def error_counter(response: type[Message], version: int) -> ErrorCounter:
    """The function for a response in a version."""
    found = _compiled.get((response, version))
    if found is None:
        found = _compiled[response, version] = _compile(response, version)
    return found


def _compile(response: type[Message], version: int) -> ErrorCounter:
    source = Source({})
    source.line("none = 0")
    _Writer(source, response, version).count(response, "response")
    head = "def generated(response, counts):"
    return source.compile(head, f"<errors of {response.__name__} {version}>", ["    counts[0] += none"])


class _Writer:
    def __init__(self, source: Source, response: type[Message], version: int) -> None:
        self._source = source
        self._response = response.__name__
        self._version = version

    def count(self, struct: type[Struct], name: str) -> None:
        """Write what counts the errors of a struct, and of the structs in it."""
        for field in fields_of(struct):
            if self._is_counted(struct, field):
                with self._source.block(f"if {name}.{field.name}:"):
                    self._source.line(f"code = int({name}.{field.name})")  # the hash of an enumeration's member is slow
                    self._source.line("counts[code] = counts.get(code, 0) + 1")
                if struct.__name__ not in _COUNTED_ON_FAILURE:
                    with self._source.block("else:"):
                        self._source.line("none += 1")
            elif field.array and field.struct is not None and self._has_errors(field.struct):
                element = self._source.fresh("element")
                with self._source.block(f"for {element} in {self._elements(field, name)}:"):
                    self.count(field.struct, element)

    def _elements(self, field: Field, name: str) -> str:
        return f"{name}.{field.name}" + (" or ()" if self._version in field.nullable else "")

    def _has_errors(self, struct: type[Struct]) -> bool:
        return any(
            self._is_counted(struct, field) or (field.struct is not None and self._has_errors(field.struct))
            for field in fields_of(struct)
        )

    def _is_counted(self, struct: type[Struct], field: Field) -> bool:
        if not field.name.endswith("error_code"):
            return False
        if struct.__name__ in _COUNTED_IF_CARRIED and self._version not in field.versions:
            return False
        return (self._response, struct.__name__, field.name) not in _NOT_COUNTED
