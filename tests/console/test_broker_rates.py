"""Rates, latencies and growth of brokers: from their metrics where there are some, otherwise from the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.console.in_process import broker, console, write
from harness.processes.ports import free_port
from kwire.cli.records.writing.encoding import Rows
from kwire.console.api import broker_rates
from kwire.console.api.broker_rates import Rates, _row, _Sample
from kwire.console.api.scraping import Metrics, NoMetrics, endpoint, parse, scrape

PAGE = """\
# TYPE kafka_server_brokertopicmetrics_messagesin_total counter
kafka_server_brokertopicmetrics_messagesin_total{broker="1"} 10.0
kafka_server_brokertopicmetrics_messagesin_total{broker="1",topic="t"} 10.0
kafka_server_brokertopicmetrics_messagesin_total{broker="2"} 7.0
kafka_server_brokertopicmetrics_bytesin_total{broker="1"} 2e3
kafka_server_brokertopicmetrics_bytesout_total{broker="1"} 5.0
kafka_network_requestmetrics_requests_total{broker="1",request="Produce",version="12"} 3.0
kafka_network_requestmetrics_requests_total{broker="1",request="Fetch",version="12"} 4.0
kafka_network_requestmetrics_totaltimems{broker="1",quantile="0.50",request="Produce"} 1.0
kafka_network_requestmetrics_totaltimems{broker="1",quantile="0.99",request="Produce"} 2.5
kafka_network_requestmetrics_totaltimems{broker="1",quantile="0.99",request="Fetch"} 500.0
kafka_network_requestmetrics_totaltimems{broker="1",quantile="0.99",request="FetchConsumer"} 8.0
"""
NONE = NoMetrics("why")


def test_metrics_of_one_broker_are_taken_from_a_page_of_several() -> None:
    assert parse(PAGE, 1) == Metrics(10, 2000, 5, 7, 2.5, 8)
    assert parse(PAGE, 2) == Metrics(messages=7)
    assert parse("kafka_server_brokertopicmetrics_bytesin_total 4.0\n", 9) == Metrics(bytes_in=4)


@pytest.mark.parametrize(
    ("listen", "host", "security", "found"),
    [
        ("0.0.0.0:9464", "broker-1", {}, ("broker-1", 9464)),
        ("localhost:9464", "127.0.0.1", {}, ("127.0.0.1", 9464)),
        (":9464", "broker-1", {}, ("broker-1", 9464)),
        ("localhost:9464", "broker-1", {}, "on the broker's own machine only"),
        (None, "broker-1", {}, "without kwire.metrics.listen"),
        ("0.0.0.0:9464", "broker-1", {"login": True}, "need a login or TLS"),
        ("0.0.0.0:many", "broker-1", {}, "kwire.metrics.listen=0.0.0.0:many"),
    ],
)
def test_where_the_metrics_are(
    listen: str | None, host: str, security: Mapping[str, bool], found: tuple[str, int] | str
) -> None:
    options = {"login": False, "tls": False, **security}
    if isinstance(found, tuple):
        assert endpoint(listen, host, **options) == found
    else:
        with pytest.raises(NoMetrics, match=found):
            endpoint(listen, host, **options)


def sample(time_s: float, metrics: Mapping[int, Metrics], ends: Mapping[int, int], held: int) -> _Sample:
    return _Sample(time_s, metrics, {("t", index): (1, end) for index, end in ends.items()}, {1: held})


def test_rates_are_what_came_between_two_looks() -> None:
    before, now = sample(10, {}, {0: 100, 1: 50, 2: 9}, 1000), sample(20, {}, {0: 300, 1: 50, 2: 0, 3: 77}, 600)
    row = _row(1, NONE, 0.5, before, now)
    assert (row.messages_in, row.growth, row.bytes_in, row.answer_ms) == (20.0, -40.0, None, 0.5)
    assert row.metrics_error == "why"
    first = _row(1, NONE, 0.5, None, now)
    assert (first.messages_in, first.growth) == (None, None)


def test_metrics_go_before_the_protocol_and_a_restart_is_no_rate() -> None:
    old, new = Metrics(100, 1000, 0, 10), Metrics(300, 5000, 20, 60, 1.5, None)
    row = _row(1, new, 0.5, sample(0, {1: old}, {}, 0), sample(10, {1: new}, {}, 0))
    assert row[1:5] == (20.0, 400.0, 2.0, 5.0)
    assert (row.produce_ms, row.fetch_ms, row.metrics_error) == (1.5, None, None)
    again = _row(1, old, 0.5, sample(0, {1: new}, {}, 0), sample(10, {1: old}, {}, 0))
    assert again[1:5] == (None, None, None, None)


async def test_a_broker_without_metrics_has_those_of_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_rates, "APART_S", 0.0)
    monkeypatch.setattr("kwire.console.shared.FRESH_S", 0.0)
    monkeypatch.setattr("kwire.console.shared.SHARE", 0)
    async with broker(tmp_path) as bootstrap, console(bootstrap) as client:
        await write(bootstrap, "t", 0, Rows([b"1"]))
        [first] = (await client.get("/api/brokers/rates")).json()
        assert (first["messages_in"], first["growth"]) == (None, None)
        assert first["answer_ms"] >= 0
        assert "without kwire.metrics.listen" in first["metrics_error"]
        await write(bootstrap, "t", 0, Rows([b"2"] * 1000))
        [then] = (await client.get("/api/brokers/rates")).json()
        assert then["messages_in"] > 0
        assert then["growth"] > 0
        assert then["requests"] is None


async def test_a_metrics_endpoint_that_does_not_answer_is_told(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    with pytest.raises(NoMetrics) as raised:
        await scrape(endpoint(listen, "127.0.0.1", login=False, tls=False), 1)
    error = str(raised.value)
    assert error.startswith(f"{listen}: ")
    assert "refused" in error


def test_old_looks_are_forgotten() -> None:
    rates = Rates()
    looks = [sample(time_s, {}, {}, 0) for time_s in (0, 1, 5, 29, 36)]
    assert [rates._before(each) for each in looks] == [None, None, looks[0], looks[0], looks[3]]
