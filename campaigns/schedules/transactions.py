"""Schedules of transactional producers: old clients and new ones (KIP-890), zombies of both, and readers.

Producers with the same transactional id fence each other. They write records, commit the offsets of a group, commit and
abort, stall, retry, crash and return.

Invariants: a transaction whose commit was confirmed is completely visible, with its offsets; one whose commit was never
requested is never visible; one with an unknown outcome is visible completely or not at all; no record is visible twice;
committed offsets never decrease; a fenced producer commits nothing; after all producers have stopped, no transaction
stays open; loading the log restores the state of the shard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from campaigns.schedules import replay
from campaigns.schedules.world import OFFSETS_TOPIC, START_MS, TRANSACTIONS_TOPIC, Lost, World, must
from kwire.base.errors import ErrorCode
from kwire.base.topic_partition import TopicPartition
from kwire.codec.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.codec.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codec.records import RecordBatchBuilder, iter_records, parse_end_transaction_marker
from kwire.coordinator.runtime import log_loader
from kwire.coordinator.transactions import records as transaction_records
from kwire.coordinator.transactions.records import Transaction, TransactionState
from kwire.handlers.data.fetch import handler as fetch
from kwire.handlers.data.produce import handler as produce
from kwire.handlers.groups import offset_fetch
from kwire.handlers.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

NONE: Final = ErrorCode.NONE
GROUP: Final = "g"
OUT: Final = [("out", 0), ("out", 1)]
IDS: Final = ("a", "b")
TIMEOUT_MS: Final = 15_000
ATTEMPTS: Final = 8
EPOCH_ALMOST_LAST: Final = 32_762

RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Errors after which the request may have taken effect or not."""

ABORTABLE: Final = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})


class Abort(Exception):
    """The transaction can only be aborted."""


class Fatal(Exception):
    """The producer cannot continue: it is fenced or has crashed."""


class Txn:
    """One transaction of the model. ``commit_requested``: EndTxn may have been sent with commit."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.values: dict[TopicPartition, list[bytes]] = {}
        self.committed_offsets: dict[int, int] = {}
        self.commit_requested = False
        self.committed = False


class Model:
    """All transactions, by record value and by committed offset."""

    def __init__(self) -> None:
        self.count = 0
        self.by_value: dict[bytes, Txn] = {}
        self.by_offset: dict[int, Txn] = {}
        self.inits: dict[str, int] = dict.fromkeys(IDS, 0)
        """How many producers have started with each transactional id."""

    def next(self) -> int:
        """The next number; records and committed offsets are numbered together."""
        self.count += 1
        return self.count


class Client:
    """A producer. Producers with the same transactional id fence each other."""

    def __init__(self, world: World, model: Model, name: str, *, new: bool) -> None:
        self.world = world
        self.model = model
        self.name = name
        self.new = new and world.level >= 2
        self.over = False
        self.producer: tuple[int, int] | None = None
        self.sequences: dict[TopicPartition, int] = {}
        self.began = 0
        self.added: set[TopicPartition] = set()
        self.must_bump = False

    async def live(self) -> None:
        """Run one transaction after another."""
        chance = self.world.random
        while not self.over:
            await asyncio.sleep(chance.choice((0.01, 0.2, 1.0)))
            try:
                if self.producer is None or self.must_bump:
                    await self.begin()
                else:
                    await self.transaction()
            except Fatal:
                self.producer, self.must_bump = None, False
                await asyncio.sleep(chance.choice((0.1, 1.0, 4.0)))

    # -- requests ------------------------------------------------------------------------------------------------------

    async def ask(self, api: Any, make: Any, version: int, *, twice: bool = True) -> Any:
        """The response, or None if the outcome of the request is unknown."""
        try:
            return await self.world.call(api, make, version, twice=twice)
        except Lost:
            return None

    async def persist(self, attempt: Any) -> ErrorCode:
        """Retry until the outcome is known."""
        chance = self.world.random
        for _ in range(ATTEMPTS):
            error = await attempt()
            if error is not None and error not in RETRIABLE:
                return ErrorCode(error)
            await asyncio.sleep(chance.choice((0.02, 0.1, 0.5)))
            if self.over:
                raise Fatal
        raise Abort

    async def begin(self) -> None:
        """InitProducerId, for a new producer or to continue with the present one (KIP-360)."""
        expected = self.producer if self.must_bump and self.producer else (-1, -1)
        self.must_bump = False

        async def attempt() -> int | None:
            response = await self.ask(
                init_producer_id.API,
                lambda: InitProducerIdRequest(
                    transactional_id=self.name,
                    transaction_timeout_ms=TIMEOUT_MS,
                    producer_id=expected[0],
                    producer_epoch=expected[1],
                ),
                5 if self.new else 4,
            )
            if response is None:
                return None
            if response.error_code == NONE:
                self.producer = response.producer_id, response.producer_epoch
                self.model.inits[self.name] += 1
                self.began = self.model.inits[self.name]
            return int(response.error_code)

        try:
            error = await self.persist(attempt)
        except Abort:
            raise Fatal from None
        if error is not NONE:
            raise Fatal
        self.sequences = {}

    async def transaction(self) -> None:
        """Write to some partitions, then end the transaction."""
        chance, txn = self.world.random, Txn(self)
        self.added = set()
        touched = False
        try:
            for _ in range(chance.choice((1, 1, 2, 4))):
                touched = True
                if chance.random() < 0.7:
                    await self.write(txn, chance.choice(OUT))
                else:
                    await self.commit_offset(txn)
                if chance.random() < 0.1:
                    await asyncio.sleep(chance.choice((1.0, 8.0, 25.0)))  # it stalls
                if chance.random() < 0.04:
                    raise Fatal  # it crashes
            commit = chance.random() < 0.75
        except Abort:
            commit = False
        if touched:
            await self.end(txn, commit=commit)

    async def write(self, txn: Txn, name: TopicPartition) -> None:
        """Write one record to a partition. Raises `Abort` and `Fatal`."""
        assert self.producer is not None
        value = f"{self.name} {self.model.next()}".encode()
        self.model.by_value[value] = txn
        batch = self._batch(name, value)
        if not self.new:
            await self.add(name)

        async def attempt() -> int | None:
            response = await self.ask(produce.API, lambda: _produce(self.name, name, batch), 12 if self.new else 11)
            return None if response is None else int(response.responses[0].partition_responses[0].error_code)

        try:
            error = await self.persist(attempt)
        except Abort:
            self.must_bump = not self.new
            raise
        if error in ABORTABLE:
            self.must_bump = not self.new
            raise Abort
        if error is not NONE:
            raise Fatal
        self.sequences[name] = self.sequences.get(name, 0) + 1
        txn.values.setdefault(name, []).append(value)

    def _batch(self, name: TopicPartition, value: bytes) -> bytes:
        assert self.producer is not None
        builder = RecordBatchBuilder(
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequences.get(name, 0),
            is_transactional=True,
        )
        builder.append(self.world.time_ms(), None, value)
        return builder.build()

    async def add(self, name: TopicPartition) -> None:
        """AddPartitionsToTxn, as old clients send it."""
        if name in self.added:
            return
        assert self.producer is not None
        producer = self.producer

        async def attempt() -> int | None:
            response = await self.ask(
                add_partitions_to_txn.API,
                lambda: AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.name,
                    v3_and_below_producer_id=producer[0],
                    v3_and_below_producer_epoch=producer[1],
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name=name[0], partitions=[name[1]])],
                ),
                3,
            )
            if response is None:
                return None
            return int(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        await self._succeed(self.persist(attempt))
        self.added.add(name)

    async def commit_offset(self, txn: Txn) -> None:
        """Commit an offset of the group, once per transaction."""
        assert self.producer is not None
        producer, index = self.producer, IDS.index(self.name)
        if index in txn.committed_offsets:
            return
        offset = self.model.next()
        self.model.by_offset[offset] = txn
        if not self.new:
            await self._add_offsets(producer)

        async def attempt() -> int | None:
            response = await self.ask(
                txn_offset_commit.API,
                lambda: _txn_offset_commit(self.name, producer, index, offset),
                5 if self.new else 3,
                twice=self.new,
            )
            return None if response is None else int(response.topics[0].partitions[0].error_code)

        await self._succeed(self.persist(attempt))
        txn.committed_offsets[index] = offset

    async def _add_offsets(self, producer: tuple[int, int]) -> None:
        async def attempt() -> int | None:
            response = await self.ask(
                add_offsets_to_txn.API,
                lambda: AddOffsetsToTxnRequest(
                    transactional_id=self.name, producer_id=producer[0], producer_epoch=producer[1], group_id=GROUP
                ),
                3,
            )
            return None if response is None else int(response.error_code)

        await self._succeed(self.persist(attempt))

    async def _succeed(self, request: Awaitable[ErrorCode]) -> None:
        error = await request
        if error in ABORTABLE:
            raise Abort
        if error is not NONE:
            raise Fatal

    async def end(self, txn: Txn, *, commit: bool) -> None:
        """Commit or abort a transaction. Raises `Fatal`, and `Violation` if a fenced producer could commit."""
        assert self.producer is not None
        producer = self.producer
        txn.commit_requested = commit
        fenced = self.model.inits[self.name] > self.began
        following = producer

        async def attempt() -> int | None:
            nonlocal following
            response = await self.ask(
                end_txn.API,
                lambda: EndTxnRequest(
                    transactional_id=self.name, producer_id=producer[0], producer_epoch=producer[1], committed=commit
                ),
                5 if self.new else 4,
                twice=self.new,
            )
            if response is None:
                return None
            if response.error_code == NONE and self.new:
                following = response.producer_id, response.producer_epoch
            return int(response.error_code)

        try:
            error = await self.persist(attempt)
        except Abort:
            raise Fatal from None
        if error is not NONE:
            raise Fatal
        if commit:
            must(not fenced, f"{self.name}: a fenced producer has committed")
            txn.committed = True
            self.world.counts["committed"] += 1
        else:
            self.world.counts["aborted"] += 1
        if self.new:
            must(following[0] >= 0, "the response has no producer id")
            must(following[0] != producer[0] or following[1] > producer[1], "the response has no new epoch")
            self.producer, self.sequences = following, {}


def _produce(transactional_id: str, name: TopicPartition, batch: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=name[1], records=memoryview(bytearray(batch)))
    topic = TopicProduceData(name=name[0], partition_data=[data])
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=3000, topic_data=[topic])


def _txn_offset_commit(
    transactional_id: str, producer: tuple[int, int], index: int, offset: int
) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=GROUP,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name="in", partitions=[partition])],
    )


class Reader:
    """A consumer with read_committed that works as the Java client, and the records that it has read."""

    def __init__(self, world: World, model: Model) -> None:
        self.world = world
        self.model = model
        self.next = dict.fromkeys(OUT, 0)
        self.seen: dict[TopicPartition, list[bytes]] = {name: [] for name in OUT}
        self.committed_offsets = dict.fromkeys(range(len(IDS)), -1)

    async def live(self) -> None:
        """Read from time to time."""
        while True:
            await asyncio.sleep(self.world.random.choice((0.5, 3.0)))
            await self.look()

    async def look(self) -> None:
        """Read all partitions to the end."""
        try:
            for name in OUT:
                await self.read(name)
            await self.fetch_committed_offsets()
        except Lost:
            pass

    async def read(self, name: TopicPartition) -> None:
        """Fetch a partition once and take its committed records. Raises `Lost` and `Violation`."""
        size = self.world.random.choice((1, 200, 1 << 20))
        response = await self.world.deliver(fetch.API, _fetch(name, self.next[name], size), 11)
        if not response.responses or response.responses[0].partitions[0].error_code:
            return
        data = response.responses[0].partitions[0]
        content = memoryview(self.world.content(data.records))
        aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
        doomed: set[int] = set()
        for position, header in log_loader._whole_batches(bytes(content)):
            if header.next_offset <= self.next[name]:
                continue
            while aborted and aborted[0][0] <= header.last_offset:
                doomed.add(aborted.pop(0)[1])
            batch = content[position : position + header.size]
            if header.is_control:
                marker = parse_end_transaction_marker(next(iter_records(batch, max_bytes=4096)))
                if marker is not None and not marker.commit:
                    doomed.discard(header.producer_id)
            elif header.producer_id not in doomed:
                for record in iter_records(batch, max_bytes=4096):
                    self.see(name, bytes(record.value or b""))
            self.next[name] = header.next_offset

    def see(self, name: TopicPartition, value: bytes) -> None:
        """Add a visible record. Raises `Violation` if its transaction was not to be committed."""
        txn = self.model.by_value[value]
        must(txn.commit_requested, f"an aborted record is visible: {value!r} in {name}")
        self.seen[name].append(value)
        self.world.counts["records seen"] += 1

    async def fetch_committed_offsets(self) -> None:
        """Fetch the stable committed offsets. Raises `Lost`, and `Violation` if one is aborted or went back."""
        group = OffsetFetchRequestGroup(
            group_id=GROUP, topics=[OffsetFetchRequestTopics(name="in", partition_indexes=list(self.committed_offsets))]
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        response = (await self.world.deliver(offset_fetch.API, request, 9)).groups[0]
        if response.error_code:
            return
        for partition in response.topics[0].partitions:
            if partition.error_code:
                continue
            before, found = self.committed_offsets[partition.partition_index], partition.committed_offset
            must(
                found >= before, f"the committed offset of in-{partition.partition_index} went from {before} to {found}"
            )
            must(
                found < 0 or self.model.by_offset[found].commit_requested,
                f"an offset of an aborted transaction is visible: {found}",
            )
            self.committed_offsets[partition.partition_index] = found


def _fetch(name: TopicPartition, offset: int, size: int) -> FetchRequest:
    partition = FetchPartition(partition=name[1], fetch_offset=offset, partition_max_bytes=size)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic=name[0], partitions=[partition])],
    )


class Schedule:
    """One seed."""

    def __init__(self, seed: int) -> None:
        level = seed % 3 if seed % 7 else 2
        self.world = world = World(
            seed,
            logs={"out": len(OUT), OFFSETS_TOPIC: 1, TRANSACTIONS_TOPIC: 1},
            names={"in": len(IDS)},
            level=level,
            transactional_id_expiration_ms=str((86_400_000, 20_000)[seed % 5 == 0]),
        )
        chance = world.random
        self.model = Model()
        self.reader = Reader(world, self.model)
        self.clients = [
            Client(world, self.model, name, new=chance.random() < 0.7) for name in chance.choice(("ab", "aab", "aaab"))
        ]
        self.old_epoch = chance.random() < 0.1

    def run(self) -> None:
        """Run the seed from beginning to end. Raises `Violation`, and any unexpected error."""
        self.world.run(self._happen())

    async def _happen(self) -> None:
        world = self.world
        if self.old_epoch:
            self._grow_old()
        names = [*OUT, (OFFSETS_TOPIC, 0), (TRANSACTIONS_TOPIC, 0), (TRANSACTIONS_TOPIC, 0)]
        tasks = [world.spawn(client.live()) for client in self.clients]
        tasks += [world.spawn(self.reader.live()), world.spawn(self._compare())]
        storm = world.spawn(world.storm(names, world.random.choice((5, 20, 40))))
        await asyncio.wait([storm, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for client in self.clients:
            client.over = True
        tasks[-1].cancel()
        for task in (storm, *tasks[:-2]):
            await asyncio.wait_for(task, 300)
        tasks[-2].cancel()
        if tasks[-2].done() and not tasks[-2].cancelled():
            tasks[-2].result()
        await asyncio.sleep(TIMEOUT_MS / 1000 + 25)
        await self._check()

    def _grow_old(self) -> None:
        """A transactional id whose producer epochs are almost used up."""
        old = Transaction(IDS[0], 900)
        record = transaction_records.transition(
            old,
            TransactionState.COMPLETE_ABORT,
            self.world.level,
            producer_epoch=EPOCH_ALMOST_LAST,
            timeout_ms=TIMEOUT_MS,
            update_ms=START_MS,
        )
        runtime = self.world.transactions._runtimes[0]
        runtime._apply(record, runtime._append([record]))

    async def _compare(self) -> None:
        while True:
            await asyncio.sleep(15)
            replay.compare(self.world)

    async def _check(self) -> None:
        world, model, reader = self.world, self.model, self.reader
        world.check_nothing_waits(0)
        for name in OUT:
            log = world.replicas.partitions[name].log
            must(log.last_stable_offset == log.log_end_offset, f"a transaction is still open in {name}")
            while reader.next[name] < log.log_end_offset:
                before = reader.next[name]
                await reader.read(name)
                must(reader.next[name] > before, f"{name} cannot be read at {before}")
        await reader.fetch_committed_offsets()
        shard = world.shard(TRANSACTIONS_TOPIC)
        must(shard is not None and not any(one.state.is_prepared for one in shard), "a transaction is never completed")
        offsets = world.shard(OFFSETS_TOPIC)
        must(offsets is not None and not offsets.offsets.has_open_transaction(GROUP), "pending offsets are left")
        replay.compare(world)
        for name, seen in reader.seen.items():
            must(len(seen) == len(set(seen)), f"a record is visible twice in {name}")
        shown = {value for seen in reader.seen.values() for value in seen}
        for txn in {id(one): one for one in (*model.by_value.values(), *model.by_offset.values())}.values():
            self._check_whole(txn, shown)

    def _check_whole(self, txn: Txn, shown: set[bytes]) -> None:
        values = [value for part in txn.values.values() for value in part]
        visible = [value in shown for value in values]
        must(all(visible) or not any(visible), f"a part of a transaction is visible: {values}")
        must(not txn.committed or all(visible), f"a committed transaction is lost: {values}")
        for name, part in txn.values.items():
            there = [value for value in self.reader.seen[name] if value in part]
            must(not there or there == part, "the order of a transaction is lost")
        for index, offset in txn.committed_offsets.items():
            found = self.reader.committed_offsets[index]
            must(not txn.committed or found >= offset, f"a committed offset is lost: {offset}, found {found}")
            must(found != offset or all(visible), "committed offsets are visible without their records")
            must(found >= offset or not any(visible), "records are visible without their committed offsets")
