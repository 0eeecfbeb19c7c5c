"""Which topic a table is of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kwire.archive.errors import ArchiveError

VERSION: Final = 1
"""The version of what kwire writes into a table's properties."""
_PREFIX: Final = "kwire."


class Identity(NamedTuple):
    """A topic: the ids are empty where a broker has none. ``partitions``: how many it has."""

    topic: str
    topic_id: str
    cluster_id: str
    partitions: int

    def properties(self) -> dict[str, str]:
        """What a table keeps of it."""
        return {
            "kwire.version": str(VERSION),
            "kwire.topic": self.topic,
            "kwire.topic.id": self.topic_id,
            "kwire.cluster.id": self.cluster_id,
            "kwire.partitions": str(self.partitions),
        }

    @classmethod
    def of(cls, properties: Mapping[str, str], where: str) -> Identity:
        """The topic that a table is of. `ArchiveError` if kwire did not make it."""
        missing = [name for name in cls("", "", "", 0).properties() if name not in properties]
        if missing:
            raise ArchiveError(f"{where}: kwire did not make this table (it has no {missing[0]}): give another --path")
        version, partitions = properties["kwire.version"], properties["kwire.partitions"]
        if version != str(VERSION) or not partitions.isdecimal():
            raise ArchiveError(f"{where}: made by another version of kwire (kwire.version={version})")
        return cls(
            properties["kwire.topic"], properties["kwire.topic.id"], properties["kwire.cluster.id"], int(partitions)
        )

    def check(self, found: Identity, where: str) -> None:
        """`ArchiveError` unless ``found``, the topic that is to be archived, is the one that the table is of."""
        if found.topic != self.topic:
            raise ArchiveError(f"{where}: has records of topic {self.topic}, not of {found.topic}: give another --path")
        if self.cluster_id and found.cluster_id and found.cluster_id != self.cluster_id:
            raise ArchiveError(
                f"{where}: has records of cluster {self.cluster_id}, and this is cluster {found.cluster_id}: give"
                " another --path"
            )
        if self.topic_id and found.topic_id and found.topic_id != self.topic_id:
            raise ArchiveError(
                f"{where}: topic {self.topic} was deleted and made again since (its id was {self.topic_id} and is"
                f" {found.topic_id}): give another --path"
            )
