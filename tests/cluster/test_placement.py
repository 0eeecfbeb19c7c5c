"""Where the replicas of new partitions are placed: properties that hold for any start."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, ConfigResource
from kwire.cluster.placement import place

SEEDS = range(50)


def cluster(*racks: str | None, away: Sequence[int] = (), leaving: Sequence[int] = ()) -> ClusterImage:
    """Brokers 0, 1, 2... in these racks."""
    registered = {
        number: BrokerImage(number, 1, {}, rack, leaving=number in leaving) for number, rack in enumerate(racks)
    }
    brokers = {number: broker for number, broker in registered.items() if number not in away}
    return ClusterImage(brokers=brokers, registered=registered)


def loads(placed: Sequence[Sequence[int]]) -> Counter[int]:
    return Counter(broker for replicas in placed for broker in replicas)


@pytest.mark.parametrize("racks", ["aabb", "abab", "aabbcc", "abcabcabc"])
@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_of_a_partition_are_in_different_racks(racks: str, seed: int) -> None:
    factor = len(set(racks))
    placed = place(cluster(*racks), 40, factor, random.Random(seed))
    assert all(len({racks[broker] for broker in replicas}) == factor for replicas in placed)


@pytest.mark.parametrize("seed", SEEDS)
def test_racks_and_brokers_have_equal_shares_after_each_round(seed: int) -> None:
    racks = "aabbcc"
    placed = place(cluster(*racks), 24, 3, random.Random(seed))
    for start in range(0, 24, 6):
        turn = placed[start : start + 6]
        assert Counter(racks[replicas[0]] for replicas in turn) == {"a": 2, "b": 2, "c": 2}
        assert set(loads(turn).values()) == {3}


@pytest.mark.parametrize("seed", SEEDS)
def test_leaders_are_spread_when_brokers_have_no_racks(seed: int) -> None:
    placed = place(cluster(None, None, None, None, None), 40, 3, random.Random(seed))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {8}
    assert len({frozenset(replicas) for replicas in placed}) > 5, "the same neighbours come again"


@pytest.mark.parametrize("factor", range(1, 6))
def test_every_replica_of_a_partition_is_on_another_broker(factor: int) -> None:
    for replicas in place(cluster(None, "a", None, "a", "b"), 40, factor, random.Random(1)):
        assert len(set(replicas)) == factor


@pytest.mark.parametrize("seed", SEEDS)
def test_fenced_and_leaving_brokers_come_last_in_their_rack_and_never_lead(seed: int) -> None:
    made = cluster("a", "a", "b", "b", away=(1,), leaving=(3,))
    assert loads(place(made, 12, 2, random.Random(seed))) == {0: 12, 2: 12}
    placed = place(made, 12, 3, random.Random(seed))
    assert all({0, 2} < set(replicas) and replicas[0] in (0, 2) for replicas in placed)


def test_one_live_broker_leads_everything() -> None:
    placed = place(cluster(None, None, None, away=(0, 2)), 30, 2, random.Random(1))
    assert {replicas[0] for replicas in placed} == {1}
    assert set(loads(placed)) == {0, 1, 2}


def test_too_few_brokers_and_none_that_lives() -> None:
    with pytest.raises(KafkaError, match="only 3 broker") as caught:
        place(cluster("a", "b", "c", away=(1,)), 1, 4, random.Random(1))
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
    with pytest.raises(KafkaError, match="fenced") as caught:
        place(cluster("a", "b", away=(0, 1)), 1, 1, random.Random(1))
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def cordoned(static: Sequence[str], dynamic: str | None = None) -> ClusterImage:
    """Broker 0, whose two directories may be cordoned, and broker 1."""
    names = (("one", "/data/one"), ("two", "/data/two"))
    brokers = {
        0: BrokerImage(0, 1, {}, None, log_dirs=names, cordoned=tuple(static)),
        1: BrokerImage(1, 1, {}, None, log_dirs=names),
    }
    configs: dict[tuple[ConfigResource, str], Mapping[str, str]] = {}
    if dynamic is not None:
        configs[ConfigResource.BROKER, "0"] = {"cordoned.log.dirs": dynamic}
    return ClusterImage(brokers=brokers, registered=brokers, configs=configs)


@pytest.mark.parametrize(
    ("image", "brokers"),
    [
        (cordoned(["*"]), {1}),
        (cordoned(["one", "/data/two"]), {1}),
        (cordoned(["one"]), {0, 1}),
        (cordoned([], "*"), {1}),
        (cordoned([], "/data/one, two"), {1}),
        (cordoned(["*"], ""), {0, 1}),
        (cordoned(["*"], "one"), {0, 1}),
    ],
)
def test_a_broker_whose_directories_are_all_cordoned_gets_nothing(image: ClusterImage, brokers: set[int]) -> None:
    """KIP-1066. The dynamic property replaces that of the broker's own file."""
    assert {*loads(place(image, 20, 1, random.Random(1)))} == brokers


def test_cordoned_brokers_do_not_count_for_the_replication_factor() -> None:
    with pytest.raises(KafkaError, match="some brokers have all their log directories cordoned") as error:
        place(cordoned(["*"]), 1, 2, random.Random(1))
    assert error.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
