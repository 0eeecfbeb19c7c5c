"""Kafka's MBeans as series, with the names that the JMX exporter's example for KRaft gives them.

``kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=orders`` with ``Count`` becomes
``kafka_server_brokertopicmetrics_messagesin_total{topic="orders"}``. Names are in lower case, labels are as Kafka has
them. Histograms are summaries.

Strimzi's rules for the JMX exporter differ for a few MBeans. Those that its dashboards query have both names, or the
labels of Strimzi's rules. What Prometheus itself asks of names is in `names`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9_]+")
_PER_SECOND: Final = re.compile(r"PerSec\w*$")
_PERCENT: Final = re.compile(r"Percent\w*$")
_PERCENTILE: Final = re.compile(r"(\d+)thPercentile")
_LABELS_MAX: Final = 2
_STRIMZI_TYPES: Final = {"raft-metrics": "raftmetrics"}
_QUOTA_TAGS: Final = {"user": "user", "client-id": "clientId"}

Labels = Mapping[str, str]


class Sample(NamedTuple):
    """A value of a series. ``suffix``: what the family's name has behind it, as in ``_total`` and ``_count``."""

    family: str
    kind: str
    suffix: str
    labels: Labels
    value: float


class MBean(NamedTuple):
    """The name of an MBean, in its parts."""

    domain: str
    type: str
    name: str
    tags: dict[str, str]


def parse(text: str) -> MBean:
    """An MBean's name. The last tag may have commas, as names of directories do."""
    domain, _, properties = text.partition(":")
    tags: dict[str, str] = {}
    last = ""
    for part in properties.split(","):
        key, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[\w.-]+", key):
            tags[key], last = value, key
        elif last:
            tags[last] += f",{part}"
    return MBean(domain, tags.pop("type", ""), tags.pop("name", ""), tags)


def samples(text: str, value: Any) -> Iterator[Sample]:
    """The series of one metric: a number, or a mapping of Kafka's attributes."""
    bean = parse(text)
    if bean.type.endswith("-metrics"):  # of Kafka's other library of metrics: attributes with tags before them
        yield from _of_attributes(bean, value)
    elif not bean.name:
        yield from _of_quota(bean, value)
    elif not isinstance(value, Mapping):
        yield from _of_gauge(bean, value)
    elif "Value" in value:
        yield from _of_gauge(bean, value["Value"])
    elif bean.name.endswith("PerSec"):
        if len(bean.tags) <= _LABELS_MAX:
            name = _name(bean.domain, bean.type, _PER_SECOND.sub("", bean.name))
            yield Sample(name, "counter", "_total", _labels(bean), value["Count"])
    elif "Mean" not in value:
        yield from _of_meter(bean, value)
    else:
        yield from _of_histogram(bean, value)


def _of_gauge(bean: MBean, value: float) -> Iterator[Sample]:
    labels = _labels(bean)
    yield Sample(_name(bean.domain, bean.type, bean.name), "gauge", "", labels, value)
    if bean.name.endswith("Percent"):  # Strimzi's rules name it as the example names a meter of idle time
        name = _name(bean.domain, bean.type, bean.name.removesuffix("Percent"), "percent")
        yield Sample(name, "gauge", "", labels, value)


def _of_meter(bean: MBean, value: Mapping[str, float]) -> Iterator[Sample]:
    """A meter that does not count events per second; that of idle time has a ratio as its rate."""
    labels = _labels(bean)
    if _PERCENT.search(bean.name):
        name = _name(bean.domain, bean.type, _PERCENT.sub("", bean.name), "percent")
        yield Sample(name, "gauge", "", labels, value["MeanRate"])
    yield Sample(_name(bean.domain, bean.type, bean.name, "count"), "gauge", "", labels, value["Count"])


def _of_histogram(bean: MBean, value: Mapping[str, float]) -> Iterator[Sample]:
    name = _name(bean.domain, bean.type, bean.name)
    labels = _labels(bean)
    for attribute, number in value.items():
        found = _PERCENTILE.fullmatch(attribute)
        if found is not None:
            yield Sample(name, "summary", "", {**labels, "quantile": f"0.{found[1]}"}, number)
    yield Sample(name, "summary", "_sum", labels, value["Mean"] * value["Count"])
    yield Sample(name, "summary", "_count", labels, value["Count"])


def _of_attributes(bean: MBean, value: Any) -> Iterator[Sample]:
    if "networkProcessor" in bean.tags:  # as in Strimzi's rules: the example's names would have the listeners in them
        yield Sample(_name(bean.domain, bean.type, bean.name), "gauge", "", _labels(bean), value)
        return
    if bean.type in _STRIMZI_TYPES:
        yield from _of_attributes(bean._replace(type=_STRIMZI_TYPES[bean.type]), value)
    tags = [word for tag in bean.tags.items() for word in tag]
    attributes = value if isinstance(value, Mapping) else {bean.name: value}
    for attribute, number in attributes.items():
        whole = "_".join(filter(None, (bean.type, *tags, bean.name if isinstance(value, Mapping) else "", attribute)))
        if attribute.endswith("-total"):
            yield Sample(_name(bean.domain, whole.removesuffix("-total")), "counter", "_total", {}, number)
        else:
            yield Sample(_name(bean.domain, whole), "gauge", "", {}, number)


def _of_quota(bean: MBean, value: Mapping[str, float]) -> Iterator[Sample]:
    labels = {_QUOTA_TAGS[key]: text for key, text in bean.tags.items() if key in _QUOTA_TAGS}
    for attribute, number in value.items():
        if labels:
            yield Sample(
                _name("kafka.server", "quota", attribute), "gauge", "", {"resource": bean.type, **labels}, number
            )
        else:
            yield Sample(_name(bean.domain, bean.type, attribute), "gauge", "", {}, number)


def _name(*words: str) -> str:
    return _UNSAFE.sub("_", "_".join(words)).lower()


def _labels(bean: MBean) -> dict[str, str]:
    return {_UNSAFE.sub("_", key): value for key, value in bean.tags.items()}
