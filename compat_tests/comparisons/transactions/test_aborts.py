"""Aborts by librdkafka while something is in flight: no broker can prevent what follows, and both behave alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from compat_tests.reading import partition_values
from harness.observations import Observations
from harness.processes.brokers import make_broker, wait_until
from harness.processes.proxy import Proxy
from harness.wire_client import WireClient
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

TOPIC = "aborted"
CALL_S = 60
NOTICED_S = 3.0
SENT_S = 1.0


@pytest.fixture
def proxied(broker_kind: str, tmp_path: Path) -> Iterator[tuple[str, Proxy]]:
    """A broker that its clients reach only through the proxy: its own address, and the proxy."""
    broker = make_broker(broker_kind, tmp_path)
    broker.choose_ports()
    address = f"{broker.host}:{broker.port}"
    proxy = Proxy(broker.port)
    broker.settings["advertised.listeners"] = f"PLAINTEXT://{proxy.address}"
    try:
        broker.start()
        yield address, proxy
    finally:
        proxy.answers_flow.set()
        proxy.requests_flow.set()
        proxy.refuse()
        broker.kill()


def test_a_sequence_number_that_librdkafka_uses_twice_is_a_duplicate_on_both(
    proxied: tuple[str, Proxy], observe: Observations
) -> None:
    """A record is written, its acknowledgement is lost, and the transaction is aborted before the record is retried.
    librdkafka (2.16) then gives its sequence number to the next record, in a transaction that commits. Every broker
    takes that record for a duplicate of the first one: it is acknowledged and not written. (Applications avoid this
    with a new producer after an abort with records in flight.)"""
    address, proxy = proxied
    config = {"bootstrap.servers": proxy.address, "transactional.id": "twice", "log_level": 0}
    producer = Producer(config)
    delivered: dict[str, str] = {}

    def send(value: str) -> None:
        name = value
        producer.produce(
            TOPIC,
            value,
            partition=0,
            on_delivery=lambda error, _: delivered.update({name: error.name() if error else "ok"}),
        )

    producer.init_transactions(CALL_S)
    producer.begin_transaction()
    send("first")
    assert producer.flush(CALL_S) == 0
    proxy.answers_flow.clear()
    send("aborted")
    producer.poll(0)
    wait_until(lambda: end_offset(address) == 2, CALL_S, "the record is written")
    proxy.refuse()
    proxy.answers_flow.set()
    assert producer.flush(NOTICED_S) == 1
    aborting = threading.Thread(target=producer.abort_transaction, args=(CALL_S,))
    aborting.start()
    wait_until(lambda: "aborted" in delivered, CALL_S, "the record is forgotten")
    proxy.accept()
    aborting.join()
    for value in ("committed", "committed as well"):
        producer.begin_transaction()
        send(value)
        producer.commit_transaction(CALL_S)
    observe("delivered", delivered)
    assert delivered["committed"] == delivered["committed as well"] == "ok"
    for isolation in ("read_committed", "read_uncommitted"):
        observe(isolation, [value.decode() for value in partition_values(proxy.address, TOPIC, isolation)])


def test_the_abort_of_a_transaction_that_the_coordinator_has_not_heard_of_is_fatal_to_librdkafka(
    proxied: tuple[str, Proxy], observe: Observations
) -> None:
    """The coordinator dies before it has read the AddPartitionsToTxn of a transaction that is aborted then. librdkafka
    (2.16) sends EndTxn nevertheless, with a version of the protocol in which an abort after a committed transaction
    cannot be told from one that contradicts it: INVALID_TXN_STATE, for librdkafka a fatal error."""
    _, proxy = proxied
    producer = Producer({"bootstrap.servers": proxy.address, "transactional.id": "unheard", "log_level": 0})
    producer.init_transactions(CALL_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"committed", partition=0)
    producer.commit_transaction(CALL_S)
    proxy.requests_flow.clear()
    producer.begin_transaction()
    producer.produce(TOPIC, b"aborted", partition=0)
    assert producer.flush(SENT_S) == 1
    failures: list[KafkaException] = []

    def abort() -> None:
        try:
            producer.abort_transaction(CALL_S)
        except KafkaException as error:
            failures.append(error)

    aborting = threading.Thread(target=abort)
    aborting.start()
    aborting.join(SENT_S)  # both requests are on their way
    proxy.refuse()
    proxy.requests_flow.set()
    proxy.accept()
    aborting.join()
    observe("failures", [[error.args[0].name(), error.args[0].fatal()] for error in failures])
    assert [error.args[0].name() for error in failures] == ["INVALID_TXN_STATE"]
    observe("records", [value.decode() for value in partition_values(proxy.address, TOPIC, "read_committed")])


def end_offset(address: str) -> int:
    """The end offset, requested from the broker itself, not through the proxy."""
    requested = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    with WireClient(address) as client:
        return int(client.call(ListOffsetsRequest(topics=[requested]), 7).topics[0].partitions[0].offset)
