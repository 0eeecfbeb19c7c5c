"""Options of the source: those of Spark's Kafka source, by the same names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kwire.arrow.reading import Brokers, Reading
from kwire.spark.clusters import CLIENT_ID
from kwire.spark.source.errors import SourceError

EARLIEST, LATEST = -2, -1
"""Offsets that stand for the ends of a partition, in options and in ListOffsets."""
ByPartition = dict[str, dict[int, int]]

_TOPICS: Final = ("subscribe", "subscribePattern", "assign")
_RESERVED: Final = {
    "auto.offset.reset": "set startingOffsets",
    "key.deserializer": "keys are bytes; cast the column key",
    "value.deserializer": "values are bytes; cast the column value",
    "enable.auto.commit": "Spark keeps the offsets in its checkpoint",
    "interceptor.classes": "there is no Java here",
}
_ENDING: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_RATES: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_UNITS_S: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


class Limit(NamedTuple):
    """Where to begin or to end: ``offset`` (`EARLIEST` or `LATEST`) everywhere, or ``offsets`` or ``timestamps``
    (milliseconds) by partition, or ``timestamp`` everywhere. ``topics``: beside ``offsets``, `EARLIEST` or `LATEST` for
    all partitions of a topic."""

    offset: int | None = None
    offsets: ByPartition | None = None
    timestamp: int | None = None
    timestamps: ByPartition | None = None
    topics: Mapping[str, int] = {}

    def offset_of(self, topic: str, partition: int) -> int | None:
        """The offset that is given for a partition; None for a timestamp."""
        if self.offset is not None:
            return self.offset
        return self.topics.get(topic, (self.offsets or {}).get(topic, {}).get(partition))


class SourceOptions(NamedTuple):
    """One of ``topics``, ``pattern`` and ``partitions`` is given. Rates are 0 for none, and so is ``max_records``, the
    size of a task's range; ``delay_s`` is the longest time for which ``at_least`` records are waited for. ``columns``:
    the query's, not an option; empty for all."""

    bootstrap: str
    properties: dict[str, str]
    topics: tuple[str, ...]
    pattern: str | None
    partitions: Mapping[str, tuple[int, ...]] | None
    starting: Limit
    ending: Limit
    late_is_error: bool = True
    fails_on_loss: bool = True
    headers: bool = False
    min_partitions: int = 0
    max_records: int = 0
    at_most: int = 0
    at_least: int = 0
    delay_s: float = 900.0
    committed: bool = False
    timeout_s: float = 60.0
    columns: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the properties, which may have passwords."""
        return f"SourceOptions(bootstrap={self.bootstrap!r}, topics={self.topics or self.pattern or self.partitions!r})"

    @property
    def brokers(self) -> Brokers:
        """The cluster to read from."""
        return Brokers(self.bootstrap, {"client.id": CLIENT_ID, **self.properties}, self.timeout_s)

    @property
    def reading(self) -> Reading:
        """How to read."""
        wanted = self.columns or ("key", "value", *(["headers"] if self.headers else ()))
        return Reading(
            self.committed,
            self.fails_on_loss,
            headers="headers" in wanted,
            keys="key" in wanted,
            values="value" in wanted,
        )

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool, files: bool = False) -> SourceOptions:
        """Options by their names in any case; ``files``: of a reader of files, which has no brokers. `SourceError` for
        one that is missing or wrong."""
        options = {name.lower(): value for name, value in given.items()}
        properties = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
        bootstrap = properties.pop("bootstrap.servers", "")
        if files and bootstrap:
            raise SourceError("option kafka.bootstrap.servers means nothing with path: give one of them")
        if not bootstrap and not files:
            raise SourceError("option kafka.bootstrap.servers is missing: addresses as host:port,host:port")
        for name, reason in _RESERVED.items():
            if name in properties:
                raise SourceError(f"option kafka.{name} cannot be set: {reason}")
        isolation = properties.pop("isolation.level", "read_uncommitted")
        if isolation not in ("read_uncommitted", "read_committed"):
            raise SourceError(f"option kafka.isolation.level={isolation}: it is read_uncommitted or read_committed")
        strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
        if strategy not in ("error", "latest"):
            raise SourceError(f"option startingOffsetsByTimestampStrategy={strategy}: it is error or latest")
        _only_where_it_means_something(options, streaming=streaming)
        topics, pattern, partitions = _topics(options)
        at_most, at_least = _count(options, "maxOffsetsPerTrigger"), _count(options, "minOffsetsPerTrigger")
        if at_most and at_least > at_most:
            raise SourceError(f"option minOffsetsPerTrigger={at_least} is more than maxOffsetsPerTrigger={at_most}")
        starting = _limit(options, "starting", LATEST if streaming else EARLIEST, () if streaming else (LATEST,))
        ending = _limit(options, "ending", LATEST, (EARLIEST,))
        _check_order(starting, ending)
        return cls(
            bootstrap=bootstrap,
            properties=properties,
            topics=topics,
            pattern=pattern,
            partitions=partitions,
            starting=starting,
            ending=ending,
            late_is_error=strategy == "error",
            fails_on_loss=_flag(options, "failOnDataLoss", default=True),
            headers=_flag(options, "includeHeaders", default=False),
            min_partitions=_count(options, "minPartitions"),
            max_records=_count(options, "maxRecordsPerPartition"),
            at_most=at_most,
            at_least=at_least,
            delay_s=_seconds(options, "maxTriggerDelay", 900.0),
            committed=isolation == "read_committed",
            timeout_s=_count({"x": properties.pop("default.api.timeout.ms", "60000")}, "x") / 1000 or 60.0,
        )


def _only_where_it_means_something(options: Mapping[str, str], *, streaming: bool) -> None:
    kind, others = ("streaming", _ENDING) if streaming else ("batch", _RATES)
    for name in others:
        if name.lower() in options:
            raise SourceError(f"option {name} means nothing in a {kind} query: remove it")


def _topics(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, Mapping[str, tuple[int, ...]] | None]:
    given = [name for name in _TOPICS if name.lower() in options]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise SourceError(f"exactly one of the options {', '.join(_TOPICS)} must be given, not {found}")
    text = options[given[0].lower()].strip()
    if not text:
        raise SourceError(f"option {given[0]} is empty")
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(name for each in text.split(",") if (name := each.strip())))
        if not topics:
            raise SourceError(f"option subscribe={text}: names of topics with commas between them")
        return topics, None, None
    if given[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise SourceError(f"option subscribePattern={text}: {error}") from None
        return (), text, None
    example = '{"topic": [0, 1]}'
    found_partitions = _object(text, "assign", example)
    partitions = {}
    for topic, numbers in found_partitions.items():
        if not isinstance(numbers, list) or not numbers or not all(type(each) is int and each >= 0 for each in numbers):
            raise SourceError(f"option assign={text}: it must be as in {example}")
        partitions[topic] = tuple(dict.fromkeys(numbers))
    return (), None, partitions


def _limit(options: Mapping[str, str], word: str, default: int, forbidden: tuple[int, ...]) -> Limit:
    """The limit that comes first in Spark: a timestamp, timestamps by partition, offsets."""
    timestamp = options.get(f"{word}timestamp")
    if timestamp is not None:
        if not timestamp.isdecimal():
            raise SourceError(f"option {word}Timestamp={timestamp}: it is a number of milliseconds since 1970")
        return Limit(timestamp=int(timestamp))
    name = f"{word}OffsetsByTimestamp"
    if (text := options.get(name.lower())) is not None:
        return Limit(timestamps=_by_partition(text, name, lowest=0))
    name = f"{word}Offsets"
    text = options.get(name.lower(), "").strip()
    if not text:
        return Limit(offset=default)
    if text.lower() in _WORDS:
        if _WORDS[text.lower()] in forbidden:
            raise SourceError(f"option {name}={text} means nothing in a batch query")
        return Limit(offset=_WORDS[text.lower()])
    topics: dict[str, int] = {}
    offsets = _by_partition(text, name, lowest=EARLIEST, topics=topics)
    for topic, offset in topics.items():
        if offset in forbidden:
            raise SourceError(f"option {name}: {offset} for {topic} means nothing in a batch query")
    for topic, partitions in offsets.items():
        for number, offset in partitions.items():
            if offset in forbidden:
                raise SourceError(f"option {name}: {offset} for {topic}-{number} means nothing in a batch query")
    return Limit(offsets=offsets, topics=topics)


def _check_order(starting: Limit, ending: Limit) -> None:
    """`SourceError` if offsets are given for other partitions than those at which the query ends, or for later ones."""
    if starting.offsets is None or ending.offsets is None or starting.topics or ending.topics:
        return
    starts, ends = (
        {(topic, number): offset for topic, each in limit.offsets.items() for number, offset in each.items()}
        for limit in (starting, ending)
        if limit.offsets is not None
    )
    if different := starts.keys() ^ ends.keys():
        topic, number = min(different)
        raise SourceError(f"options startingOffsets and endingOffsets: only one of them names {topic}-{number}")
    for (topic, number), start in starts.items():
        if start > ends[topic, number] >= 0:
            raise SourceError(
                f"options startingOffsets and endingOffsets: {topic}-{number} begins at {start}, after its end at"
                f" {ends[topic, number]}"
            )


def _by_partition(text: str, name: str, lowest: int, topics: dict[str, int] | None = None) -> ByPartition:
    """The numbers of partitions. ``topics``: takes the topics that have a word for an offset instead; None if they may
    not."""
    example = '{"topic": {"0": 23, "1": 42}}'
    found: ByPartition = {}
    for topic, partitions in _object(text, name, example).items():
        if topics is not None and isinstance(partitions, str) and partitions.lower() in _WORDS:
            topics[topic] = _WORDS[partitions.lower()]
            continue
        if not isinstance(partitions, dict) or not all(
            number.isdecimal() and type(value) is int and value >= lowest for number, value in partitions.items()
        ):
            raise SourceError(f"option {name}={text}: it must be as in {example}")
        found[topic] = {int(number): value for number, value in partitions.items()}
    return found


def _object(text: str, name: str, example: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [key for key, _ in pairs]
        if twice := [key for key in names if names.count(key) > 1]:
            raise SourceError(f"option {name} names {twice[0]} twice: {text}")
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=once)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found:
        raise SourceError(f"option {name}={text}: it must be as in {example}")
    return found


def _count(options: Mapping[str, str], name: str) -> int:
    text = options.get(name.lower())
    if text is None:
        return 0
    if not text.isdecimal() or int(text) == 0:
        raise SourceError(f"option {name}={text}: it is a number of at least 1")
    return int(text)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise SourceError(f"option {name}={text}: it is true or false")
    return text == "true"


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name.lower())
    if text is None:
        return default
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h|d)", text.strip().lower())
    if not found:
        raise SourceError(f"option {name}={text}: it is a time such as 15m")
    return int(found[1]) * _UNITS_S[found[2]]
