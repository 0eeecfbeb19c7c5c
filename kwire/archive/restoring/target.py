"""The topic that records are written to, and how far that has come.

Each transaction has records of one partition and, as an offset of a group, the offset in the table after them. So a
restore that was killed goes on exactly there; the group is deleted at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kwire.archive.errors import ArchiveError
from kwire.archive.identity import Identity
from kwire.base.errors import ErrorCode
from kwire.cli.configs.requests import describe_resources
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import EARLIEST, LATEST, list_offsets
from kwire.cli.groups.deletion import delete_group
from kwire.cli.records.columns import Columns
from kwire.cli.records.reading import Reader
from kwire.cli.records.writing.encoding import Rows, encode_batch
from kwire.cli.records.writing.gathering import Gathering
from kwire.cli.records.writing.parsing import Batch
from kwire.cli.records.writing.partitioner import Partitioner
from kwire.cli.records.writing.transaction import Transaction
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.codec.records import BatchHeader, Buffer

_OFFSET_FETCH_VERSION: Final = 7
"""The last version of OffsetFetch for one group."""
_LIMITS: Final[dict[int, str]] = {
    ErrorCode.INVALID_TIMESTAMP: f"message.timestamp.after.max.ms={2**63 - 1}",
    ErrorCode.MESSAGE_TOO_LARGE: "max.message.bytes=BYTES",
}
_TIME_TYPE: Final = "message.timestamp.type"
_OPEN_MS: Final = 60_000
_PAUSE_S: Final = 0.1
_FENCED: Final = "another kwire restore has begun to write to this topic; nothing of this transaction was written"


class Options(NamedTuple):
    """``configs`` and ``replication_factor``: of a topic that is made. ``compression``: Kafka's number."""

    topic: str
    configs: Sequence[tuple[str, str]]
    replication_factor: int
    compression: int
    timeout_s: float


class TargetTopic:
    """A topic while records are restored into it. `ArchiveError`, `CommandError`."""

    def __init__(self, cluster: Cluster, options: Options, archive: Identity, partitions: int) -> None:
        self._cluster = cluster
        self._options = options
        self._partitions = partitions
        self._name = f"kwire-restore-{options.topic}"
        self._mark = f"{archive.topic} {archive.topic_id} {archive.cluster_id}"
        """What the group's offsets say beside the offset: of which topic the table is."""

    async def open(self) -> dict[int, int]:
        """Make the topic if it is not there, and refuse one that has records; the offset of the table from which each
        partition goes on."""
        made = await self._make()
        if not made:
            await self._check_settings()
        transaction = await self._begin()  # it ends that of a restore that was killed
        marks = await self._marks()
        if not marks:
            await self._check_empty()
            await self._commit(transaction, 0, [], 0)
        elif any(text != self._mark for _, text in marks.values()):
            other = next(text for _, text in marks.values() if text != self._mark).partition(" ")[0]
            raise ArchiveError(
                f"topic {self._options.topic}: a restore of another archive (of topic {other}) was begun and not"
                " finished: delete the topic, or finish that one"
            )
        return {partition: offset for partition, (offset, _) in marks.items()}

    async def write(self, partition: int, rows: Rows, following: int) -> None:
        """Write records, and that the table is done to before an offset: both or neither."""
        gathering = Gathering(Partitioner(self._partitions), partition)
        gathering.add(Batch(rows))
        gathering.end()
        batches = [encode_batch(each, 0, compression=self._options.compression) for _, each in gathering.full]
        try:
            await self._commit(await self._begin(), partition, batches, following)
        except CommandError as error:
            raise self._with_remedy(error) from None

    def _with_remedy(self, error: CommandError) -> CommandError:
        """A failure that says which setting keeps the topic from taking what the first one took."""
        setting = _LIMITS.get(error.code)
        if setting is None:
            return error
        command = f"kwire config set topic/{self._options.topic} {setting}"
        return CommandError(f"{error}: {command}, and run the same restore again", error.code)

    async def count(self) -> dict[int, int]:
        """The number of records in each partition, by the headers of batches."""
        await self._begin()  # Apache Kafka writes a transaction's markers after its commit was answered: not after this
        wanted = [(self._options.topic, each) for each in range(self._partitions)]
        first = await list_offsets(self._cluster, dict.fromkeys(wanted, EARLIEST))
        last = await list_offsets(self._cluster, dict.fromkeys(wanted, LATEST), committed=True)
        starts = {each: found.offset for each, found in first.items()}
        ends = {each: found.offset for each, found in last.items()}
        timeout_s = self._options.timeout_s
        reader = Reader(self._cluster, starts, ends, committed=True, timeout_s=timeout_s, decode=_counted)
        counts = dict.fromkeys(range(self._partitions), 0)
        async for columns in reader.batches():
            counts[columns.partition] += len(columns)
        return counts

    async def close(self) -> None:
        """Forget how far it has come: all is there."""
        check(await delete_group(self._cluster, self._name), f"group {self._name}")

    async def _begin(self) -> Transaction:
        timeout_s = self._options.timeout_s
        return await Transaction.begin(self._cluster, self._name, open_ms=_OPEN_MS, timeout_s=timeout_s, fenced=_FENCED)

    async def _commit(self, transaction: Transaction, partition: int, batches: Sequence[bytes], following: int) -> None:
        place = (self._options.topic, partition)
        for each in batches:
            await transaction.write(place, each)
        await transaction.commit_offset(self._name, place, following, self._mark)
        await transaction.commit()

    async def _make(self) -> bool:
        """Make the topic, unless there is one; whether it was made. `ArchiveError` if it has too few partitions."""
        name = self._options.topic
        [topic] = (await self._cluster.metadata([name])).topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await self._create()
            return True
        check(topic.error_code, f"topic {name}")
        if len(topic.partitions) < self._partitions:
            raise ArchiveError(
                f"topic {name} has {len(topic.partitions)} partitions, and the archive has {self._partitions}: kwire"
                f" topic alter {name} --partitions {self._partitions}"
            )
        return False

    async def _create(self) -> None:
        name = self._options.topic
        configs = {_TIME_TYPE: "CreateTime", "retention.ms": "-1", **dict(self._options.configs)}
        self._check_time_type(configs[_TIME_TYPE])
        topic = CreatableTopic(
            name=name,
            num_partitions=self._partitions,
            replication_factor=self._options.replication_factor,
            configs=[CreatableTopicConfig(name=each, value=value) for each, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(self._options.timeout_s * 1000))

        async def attempt() -> None:
            [result] = (await self._cluster.call(request)).topics
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:  # by an attempt before this one
                check(result.error_code, f"topic {name}", result.error_message)

        await self._cluster.until_done(attempt)
        await self._until_there()

    async def _until_there(self) -> None:
        """Apache Kafka's brokers know a new topic a moment after it was made."""
        end_s = asyncio.get_running_loop().time() + self._options.timeout_s
        while True:
            [topic] = (await self._cluster.metadata([self._options.topic])).topics
            if not topic.error_code and all(each.leader_id >= 0 for each in topic.partitions):
                return
            if asyncio.get_running_loop().time() > end_s:
                check(topic.error_code, f"topic {self._options.topic}")
                return
            await asyncio.sleep(_PAUSE_S)

    async def _check_settings(self) -> None:
        if self._options.configs:
            raise ArchiveError(f"topic {self._options.topic} exists already: --config is for a topic that is made")
        described = await describe_resources(self._cluster, "topic", [self._options.topic], [_TIME_TYPE])
        for each in described[self._options.topic]:
            self._check_time_type(each.value)

    def _check_time_type(self, value: str | None) -> None:
        if value == "LogAppendTime":
            raise ArchiveError(
                f"topic {self._options.topic} has {_TIME_TYPE}=LogAppendTime, with which the records would lose their"
                " timestamps: set it to CreateTime"
            )

    async def _check_empty(self) -> None:
        [topic] = (await self._cluster.metadata([self._options.topic])).topics
        wanted = [(self._options.topic, each.partition_index) for each in topic.partitions]
        first = await list_offsets(self._cluster, dict.fromkeys(wanted, EARLIEST))
        last = await list_offsets(self._cluster, dict.fromkeys(wanted, LATEST))
        if any(first[each].offset != last[each].offset for each in wanted):
            raise ArchiveError(f"topic {self._options.topic} has records: name another --topic, or delete this one")

    async def _marks(self) -> Mapping[int, tuple[int, str]]:
        """What the group has committed: offsets with the mark of an archive. A transaction must have been begun since
        a restore was killed."""
        wanted = OffsetFetchRequestTopic(name=self._options.topic, partition_indexes=[*range(self._partitions)])
        request = OffsetFetchRequest(group_id=self._name, topics=[wanted], require_stable=True)

        def code(response: Any) -> int:
            each = [part.error_code for topic in response.topics for part in topic.partitions]
            return int(response.error_code or max(each, default=0))

        self._cluster.extend()
        response = await self._cluster.at_coordinator(self._name, request, code, max_version=_OFFSET_FETCH_VERSION)
        check(code(response), f"group {self._name}")
        return {
            part.partition_index: (part.committed_offset, part.metadata or "")
            for topic in response.topics
            for part in topic.partitions
            if part.committed_offset >= 0
        }


def _counted(topic: str, partition: int, _batch: Buffer, header: BatchHeader) -> Columns:
    """Columns with the right number of records and nothing in them."""
    offsets = range(header.base_offset, header.base_offset + header.count)
    nothing = [None] * header.count
    return Columns(topic, partition, offsets, range(header.count), nothing, nothing, {}, header.next_offset)
