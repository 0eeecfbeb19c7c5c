"""Which partitions are moved, and where new ones are placed, on brokers of one host."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from kwire.base.errors import KafkaError
from kwire.cluster.balance.moves import plan_moves
from kwire.cluster.even_placement import EvenPlacement, ReplicaCounts
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, TopicImage
from kwire.cluster.store.keys import PartitionState

Assignments = dict[str, list[tuple[int, ...]]]


def image_of(topics: Assignments, live: Sequence[int], away: Sequence[int] = ()) -> ClusterImage:
    def broker(each: int) -> BrokerImage:
        return BrokerImage(each, 1, {}, None)

    return ClusterImage(
        brokers={each: broker(each) for each in live},
        registered={each: broker(each) for each in (*live, *away)},
        topics={
            name: TopicImage(name, name.encode().ljust(16), tuple(PartitionState(r, r, r[0], 0, 0) for r in partitions))
            for name, partitions in topics.items()
        },
    )


def after(topics: Assignments, brokers: Sequence[int]) -> tuple[Assignments, int]:
    """The assignments after the moves, and how many partitions were moved."""
    moves = plan_moves(image_of(topics, brokers), brokers)
    result = {name: list(partitions) for name, partitions in topics.items()}
    for move in moves:
        assert move.replicas is not None
        result[move.topic][move.partition] = tuple(move.replicas)
    return result, len(moves)


def leads(topics: Assignments) -> Counter[int]:
    return Counter(replicas[0] for partitions in topics.values() for replicas in partitions)


def check_even(topics: Assignments, brokers: Sequence[int]) -> None:
    for partitions in [*topics.values(), [replicas for each in topics.values() for replicas in each]]:
        for counts in (Counter(r[0] for r in partitions), Counter(each for r in partitions for each in r)):
            held = [counts[broker] for broker in brokers]
            assert max(held) - min(held) <= 1, (partitions, counts)


def test_a_topic_is_moved_from_one_broker_to_three_with_the_fewest_moves() -> None:
    spread, count = after({"t": [(1,)] * 9}, [1, 2, 3])
    assert leads(spread) == {1: 3, 2: 3, 3: 3}
    assert count == 6


def test_topics_of_one_partition_are_even_together() -> None:
    topics: Assignments = {f"t{number}": [(1,)] for number in range(30)}
    spread, count = after(topics, [1, 2, 3])
    assert leads(spread) == {1: 10, 2: 10, 3: 10}
    assert count == 20


def test_what_is_even_stays() -> None:
    assert after({"t": [(1,), (2,), (3,)], "u": [(2,), (1,), (3,), (1,)]}, [1, 2, 3])[1] == 0


def test_replicas_on_other_brokers_stay() -> None:
    spread, _ = after({"t": [(9, 1), (9, 1)]}, [1, 2])
    assert spread == {"t": [(9, 1), (9, 2)]}


def test_a_partition_that_is_being_moved_is_left_alone() -> None:
    moving = PartitionState((2, 1), (1,), 1, 0, 0, adding=(2,), removing=(1,))
    image = image_of({"t": [(1,)] * 2}, [1, 2])
    image.topics["t"] = TopicImage("t", b"t" * 16, (moving, image.topics["t"].partitions[0]))
    assert plan_moves(image, [1, 2]) == []


def test_replicated_topics_get_other_leaders() -> None:
    spread, _ = after({"t": [(1, 2), (1, 2), (1, 2), (1, 2)]}, [1, 2])
    assert leads(spread) == {1: 2, 2: 2}
    assert all(sorted(replicas) == [1, 2] for replicas in spread["t"])


@pytest.mark.parametrize("seed", range(20))
def test_any_placement_without_replication_becomes_even(seed: int) -> None:
    chance = random.Random(seed)
    brokers = range(1, chance.randint(2, 6))
    topics: Assignments = {
        f"t{number}": [(chance.choice(brokers),) for _ in range(chance.randint(1, 12))]
        for number in range(chance.randint(1, 12))
    }
    spread, _ = after(topics, brokers)
    for partitions in spread.values():
        held = Counter(replicas[0] for replicas in partitions)
        assert max(held.values()) - min(held[each] for each in brokers) <= 1
    check_even({"all": [replicas for partitions in spread.values() for replicas in partitions]}, brokers)
    assert after(spread, brokers)[1] == 0


@pytest.mark.parametrize("seed", range(10))
def test_replicas_stay_on_different_brokers(seed: int) -> None:
    chance = random.Random(seed)
    topics: Assignments = {f"t{number}": [tuple(chance.sample((1, 2, 3), 2)) for _ in range(7)] for number in range(4)}
    spread, _ = after(topics, [1, 2, 3, 4])
    for partitions in spread.values():
        assert all(len(set(replicas)) == 2 for replicas in partitions)
        held = Counter(each for replicas in partitions for each in replicas)
        assert max(held.values()) - min(held[each] for each in (1, 2, 3, 4)) <= 1


def test_new_partitions_go_to_those_that_have_least() -> None:
    image = image_of({"t": [(1,)]}, [1, 2])
    placer = EvenPlacement(image)
    created = {f"u{number}": placer.place(1, 1) for number in range(5)}
    assert leads(created) == {2: 3, 1: 2}
    check_even({"v": EvenPlacement(image).place(7, 2)}, [1, 2])
    check_even({"w": EvenPlacement(image_of({}, [1, 2, 3])).place(50, 1)}, [1, 2, 3])


@pytest.mark.parametrize("seed", range(10))
def test_replicas_are_counted_from_image_to_image(seed: int) -> None:
    chance = random.Random(seed)
    image = image_of({}, [1, 2, 3])
    counts = ReplicaCounts()
    for _ in range(20):
        changed: Assignments = {
            f"t{chance.randrange(6)}": [tuple(chance.sample((1, 2, 3), 2)) for _ in range(chance.randrange(1, 5))]
            for _ in range(2)
        }
        topics = {**image.topics, **image_of(changed, []).topics}
        topics.pop(f"t{chance.randrange(6)}", None)
        image = image_of({}, [1, 2, 3])
        image.topics = topics
        counts.follow(image)
        whole = ReplicaCounts()
        whole.follow(image)
        assert (+counts.leads, +counts.holds) == (whole.leads, whole.holds)
        assert EvenPlacement(image, counts).place(3, 2) == EvenPlacement(image).place(3, 2)


def test_only_changed_topics_are_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    add = ReplicaCounts._add

    def noted(counts: ReplicaCounts, topic: TopicImage, number: int) -> None:
        counted.append(f"{topic.name} {number:+}")
        add(counts, topic, number)

    monkeypatch.setattr(ReplicaCounts, "_add", noted)
    image = image_of({f"t{number}": [(1,)] for number in range(3)}, [1, 2])
    counts = ReplicaCounts()
    placer = EvenPlacement(image, counts)
    assert counted == ["t0 +1", "t1 +1", "t2 +1"]
    assert placer.place(3, 1) == [(2,), (1,), (2,)]
    later = image_of({}, [1, 2])
    later.topics = {**image.topics, **image_of({"t1": [(1,), (2,)], "u": [(2,)]}, []).topics}
    counted.clear()
    assert EvenPlacement(later, counts).place(2, 1) == [(2,), (1,)]
    assert counted == ["t1 -1", "t1 +1", "u +1"]
    EvenPlacement(later, counts)
    assert len(counted) == 3


def test_a_topic_that_grows_stays_even() -> None:
    image = image_of({"t": [(1,), (1,), (2,)]}, [1, 2, 3])
    assert EvenPlacement(image).place(3, 1, image.topics["t"].partitions) == [(3,), (2,), (3,)]


def test_a_broker_that_is_away_leads_nothing_new() -> None:
    image = image_of({}, [1], away=[2])
    assert EvenPlacement(image).place(2, 1) == [(1,), (1,)]
    assert EvenPlacement(image).place(1, 2) == [(1, 2)]
    with pytest.raises(KafkaError, match="only 2 broker"):
        EvenPlacement(image).place(1, 3)


def test_a_broker_whose_directories_are_cordoned_gets_nothing_new() -> None:
    image = image_of({}, [1, 2])
    image.registered[2] = image.registered[2]._replace(log_dirs=(("/data",),), cordoned=("*",))
    assert EvenPlacement(image).place(2, 1) == [(1,), (1,)]
    with pytest.raises(KafkaError, match="only 1 broker"):
        EvenPlacement(image).place(1, 2)


def test_a_broker_whose_directories_are_cordoned_gives_replicas_and_gets_none() -> None:
    topics: Assignments = {"t": [(1,), (1,), (1,), (1,), (2,), (2,)]}
    image = image_of(topics, [1, 2, 3])
    image.registered[2] = image.registered[2]._replace(log_dirs=(("/data",),), cordoned=("*",))
    moves = plan_moves(image, [1, 2, 3])
    assert {each.replicas for each in moves} == {(3,)}
    image.registered[3] = image.registered[3]._replace(log_dirs=(("/data",),), cordoned=("/data",))
    assert plan_moves(image, [1, 2, 3]) == []  # only broker 1 could take some, and it has most
