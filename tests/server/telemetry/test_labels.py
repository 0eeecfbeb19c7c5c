"""Labels are added to whatever resources a client has sent."""

from __future__ import annotations

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from kwire.server.telemetry.labels import labelled

LABELS = {"client_id": "ü" * 200, "broker_id": "1"}


def data(*attributes: str) -> MetricsData:
    resource = Resource(attributes=[KeyValue(key=each, value=AnyValue(string_value="own")) for each in attributes])
    metrics = [Metric(name=f"org.apache.kafka.m{number}") for number in range(20)]
    scoped = ResourceMetrics(resource=resource, scope_metrics=[ScopeMetrics(metrics=metrics)])
    return MetricsData(resource_metrics=[scoped, ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics)])])


def test_every_resource_gets_them_and_keeps_its_own() -> None:
    sent = data("host", "region")
    received = MetricsData.FromString(labelled(sent.SerializeToString(), LABELS))
    found = [
        {each.key: each.value.string_value for each in one.resource.attributes} for one in received.resource_metrics
    ]
    assert found == [{"host": "own", "region": "own", **LABELS}, LABELS]
    assert [one.scope_metrics for one in received.resource_metrics] == [
        one.scope_metrics for one in sent.resource_metrics
    ]


def test_no_resources_stay_none() -> None:
    assert labelled(b"", LABELS) == b""


@pytest.mark.parametrize("size", range(1, 40))
def test_what_ends_too_early_is_refused(size: int) -> None:
    whole = MetricsData(resource_metrics=[data("host").resource_metrics[0]]).SerializeToString()
    with pytest.raises(ValueError, match=r"does not end|is longer"):
        labelled(whole[:size], LABELS)


@pytest.mark.parametrize("what", [b"\x00", b"\x08\x01", b"\x12\x00", b"\xff" * 30, b'{"resourceMetrics": []}'])
def test_other_bytes_are_refused(what: bytes) -> None:
    with pytest.raises(ValueError, match=r"MetricsData|does not end|is longer"):
        labelled(what, LABELS)
