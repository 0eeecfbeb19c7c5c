"""Share groups in a simulated cluster: what members were told stays true while leaders and coordinators fail."""

from __future__ import annotations

import asyncio
import gc
import math
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from campaigns import simulated_cluster
from campaigns.mutants.share_cluster import MUTANTS
from harness.simulation import Simulation
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.sharing import group
from harness.simulation.sharing.history import BEHIND, Answer, Delivery, Serving, ShareHistory, Span, Start
from harness.simulation.sharing.inside import Inside
from harness.simulation.sharing.member import Member, Saying, Session
from harness.simulation.sharing.promises import anomalies, of_altered
from harness.simulation.workload import TOPIC, Client, create_topic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch
from kwire.share.values import AcknowledgeType

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

RECORDS = 10
SOON = ("share-cluster-given-twice", "share-cluster-answered-early", "share-cluster-altered-in-vain")


@pytest.fixture(autouse=True)
def killed_processes_leave_coroutines_behind() -> Iterator[None]:
    """They are closed here, and nothing is said of those that would go on to wait."""
    tell = sys.unraisablehook
    sys.unraisablehook = lambda found: None if "GeneratorExit" in str(found.exc_value) else tell(found)
    yield
    gc.collect()
    sys.unraisablehook = tell


def test_share_groups_keep_their_promises_while_brokers_fail() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, 4):
        outcome = simulated_cluster.run(seed, share=True)
        assert outcome.wrong == [], seed
        counts.update(outcome.counts)
    assert min(counts["share accept"], counts["share deliveries"]) > 100
    assert min(counts["share repeated"], counts["share release"], counts["share reject"]) > 5
    assert counts["share states pruned"] > 5
    assert min(counts["share offsets altered"], counts["share altered"]) > 1


@pytest.mark.parametrize(
    "seed",
    [
        20000004,  # a write that had been tried again set the start offset back: accepted records came again
        23001439,  # a broker that did not know of its successor had never heard of the share partition: Kafka's error
        21000018,  # a second initialisation made the share coordinator forget what was accepted
    ],
)
def test_what_was_found_stays_mended(seed: int) -> None:
    assert simulated_cluster.run(seed, share=True).wrong == []


@pytest.mark.parametrize("name", SOON)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert MUTANTS[name].finding(1) is not None, MUTANTS[name].breaks


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_leader_that_is_killed_while_records_are_in_flight_loses_and_doubles_nothing(seed: int) -> None:
    """Every other record is accepted before, the others are held: these come again, and only these."""
    simulation = Simulation(seed)
    accepted, deliveries = simulation.run(_kill_in_flight(simulation))
    assert sorted(accepted) == list(range(RECORDS))
    assert {offset for offset, count in deliveries.items() if count > 1} == set(range(1, RECORDS, 2))


class Holder(Member):
    """Accepts the records with even offsets, and holds the others until it is to finish."""

    def _chosen(self, session: Session) -> Saying:
        return {record: AcknowledgeType.ACCEPT for record in session.held if self._finishing or record[1] % 2 == 0}


async def _kill_in_flight(simulation: Simulation) -> tuple[list[int], Counter[int]]:
    """The offsets that were accepted with success, and how often each offset was delivered."""
    lock = {"group.share.record.lock.duration.ms": "30000", "group.share.session.timeout.ms": "30000"}
    cluster = SimulatedCluster(simulation, properties=group.SETTINGS | lock)
    await cluster.start()
    await create_topic(cluster, 1, {})
    client, history = Client(cluster, "client", 1), ShareHistory(5)
    await group.configure(client, 5, committed=False)
    topic_id = await group.topic_id_of(client)
    batch = build_batch([Record(offset=n, timestamp=1, key=None, value=b"%d" % n) for n in range(RECORDS)])
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])])
    leader = await client.leader(0)
    assert leader is not None
    written = await client.call(leader, request, 11)
    assert written.responses[0].partition_responses[0].error_code == 0
    member = Holder(
        group.GROUP,
        (TOPIC, topic_id),
        (Client(cluster, "s0", 1), Client(cluster, "s0-data", 1)),
        Inside(cluster, group.GROUP, topic_id).serving,
    ).attend(history)
    over = asyncio.Event()
    working = asyncio.ensure_future(member.run(over.is_set))

    def accepted() -> list[int]:
        return [each.record[1] for each in history.answers if each.succeeded]

    async with asyncio.timeout(60):
        while len(accepted()) < RECORDS // 2 or len(history.deliveries) < RECORDS:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        next(each for each in cluster.brokers.values() if each.host == leader[0]).kill()
        member.finish()
        while len(accepted()) < RECORDS:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    over.set()
    await working
    assert anomalies(history, {0: {n: n for n in range(RECORDS)}}) == []
    await cluster.stop()
    return accepted(), Counter(each.record[1] for each in history.deliveries)


# -- the checker -------------------------------------------------------------------------------------------------------

LOGS = {0: {0: 10, 1: 11}}
ONE = Serving(1, 5)


def span(sent_s: float, received_s: float, serving: Serving = ONE) -> Span:
    return Span(sent_s, received_s, serving, serving)


def given(member: str, offset: int, sent_s: float, **changes: Any) -> Delivery:
    fields = {"value": 10 + offset, "count": 1, "lock_s": 10.0, "span": span(sent_s, sent_s + 0.1), "ends_s": math.inf}
    return Delivery(member, (0, offset), **{**fields, **changes})


def said(member: str, offset: int, sent_s: float, error: int | None = 0, **changes: Any) -> Answer:
    fields = {"kind": AcknowledgeType.ACCEPT, "error": error, "span": span(sent_s, sent_s + 0.1)}
    return Answer(member, (0, offset), **{**fields, **changes})


def good() -> ShareHistory:
    """Record 0 is accepted by a; record 1 is given to a, who releases it, and accepted by b."""
    history = ShareHistory(3)
    history.deliveries = [
        given("a", 0, 1.0, ends_s=2.0),
        given("a", 1, 1.0, ends_s=2.0),
        given("b", 1, 3.0, count=2, ends_s=4.0),
    ]
    history.answers = [
        said("a", 0, 2.0),
        said("a", 1, 2.0, kind=AcknowledgeType.RELEASE),
        said("b", 1, 4.0),
    ]
    history.starts = [Start(0, 0, 1.0, 1.1, True), Start(0, 2, 5.0, 5.1, True)]
    return history


def give_to_two(history: ShareHistory) -> None:
    history.deliveries.append(given("c", 1, 3.2, count=3))


def give_again(history: ShareHistory) -> None:
    history.deliveries.append(given("c", 0, 6.0, count=2))


def accept_again(history: ShareHistory) -> None:
    give_again(history)
    history.answers.append(said("c", 0, 6.5))


def give_too_often(history: ShareHistory) -> None:
    history.deliveries[-1].count = 4


def lose(history: ShareHistory) -> None:
    history.answers.pop()


def go_back(history: ShareHistory) -> None:
    history.starts.append(Start(0, 1, 6.0, 6.1, True))


def change_the_value(history: ShareHistory) -> None:
    history.deliveries[0].value = 99


def answer_without_a_reason(history: ShareHistory) -> None:
    history.errors["fetch: UNKNOWN_SERVER_ERROR"] += 1


DOCTORED = {
    "share holders: (0, 1)": give_to_two,
    "share again: ACCEPT of (0, 0)": give_again,
    "share doubled: (0, 0)": accept_again,
    "share limit: (0, 1)": give_too_often,
    "share lost: (0, 1)": lose,
    "share start: of partition 0": go_back,
    "share value: a got 99": change_the_value,
    "share error: 1 x fetch: UNKNOWN_SERVER_ERROR": answer_without_a_reason,
}


def test_a_good_history_has_no_anomalies() -> None:
    assert anomalies(good(), LOGS) == []


@pytest.mark.parametrize("found", DOCTORED)
def test_the_checker_finds_what_is_wrong_with_a_history(found: str) -> None:
    history = good()
    DOCTORED[found](history)
    wrong = anomalies(history, LOGS)
    assert any(each.startswith(found) for each in wrong), wrong


def test_another_leader_may_give_what_was_held() -> None:
    history = good()
    history.deliveries.append(given("c", 1, 3.2, span=span(3.2, 3.3, Serving(2, 6))))
    assert anomalies(history, LOGS) == []


def test_a_broker_that_does_not_know_of_its_successor_may_deliver_again() -> None:
    history = good()
    history.deliveries.append(given("c", 0, 6.0, span=span(6.0, 6.1, Serving(9, 4))))
    assert anomalies(history, LOGS) == []


def test_a_broker_that_does_not_know_of_its_successor_may_not_know_the_share_partition() -> None:
    history = good()
    history.errors[f"{BEHIND}: UNKNOWN_SERVER_ERROR"] += 1
    assert anomalies(history, LOGS) == []


def test_what_was_not_answered_may_have_been_done() -> None:
    history = good()
    history.answers[-1].error = None
    assert anomalies(history, LOGS) == []


def test_deliveries_that_nobody_saw_count() -> None:
    history = good()
    lose(history)
    history.unanswered = {0: [7.0]}
    assert anomalies(history, LOGS) == []


def after_altering() -> ShareHistory:
    """The start offset was set to 1, and record 1 is given to a and accepted."""
    history = ShareHistory(3)
    history.deliveries = [given("a", 1, 1.0, ends_s=2.0)]
    history.answers = [said("a", 1, 2.0)]
    history.starts = [Start(0, 1, 0.5, 0.6, True), Start(0, 2, 5.0, 5.1, True)]
    return history


def test_after_the_start_offset_was_altered_everything_from_there_on_comes_again() -> None:
    history = after_altering()
    assert list(of_altered(history, {0: 1}, LOGS)) == []
    history.deliveries.clear()
    history.answers.clear()
    assert any(each.startswith("share lost: (0, 1)") for each in of_altered(history, {0: 1}, LOGS))


def test_after_the_start_offset_was_altered_nothing_before_it_is_given_or_shown() -> None:
    history = after_altering()
    history.deliveries.append(given("a", 0, 3.0, ends_s=4.0))
    assert any("(0, 0) was delivered" in each for each in of_altered(history, {0: 1}, LOGS))
    history = after_altering()
    history.starts.insert(0, Start(0, 0, 0.1, 0.2, True))
    assert any("partition 0 is at 0" in each for each in of_altered(history, {0: 1}, LOGS))
