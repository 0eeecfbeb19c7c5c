"""What Kafka serves and kwire does not yet is refused in well-formed responses, and not advertised."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.codec.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.codec.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.codec.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.codec.protocol import decode, encode, request_class, response_class
from kwire.handlers.refusals import LEVELS, refusal
from kwire.handlers.registry import Registry

REFUSED = [api.key for api in Registry() if api.advertised is None]


@pytest.mark.parametrize("key", REFUSED)
def test_an_api_that_is_not_served_is_refused_in_all_its_versions(key: int) -> None:
    api = refusal(key)
    assert api.advertised is None
    for version in range(api.served[0], api.served[1] + 1):
        request, _ = decode(request_class(key), version, encode(request_class(key)(), version))
        answer: Any = api.handle(request, None)  # type: ignore[arg-type]
        decode(response_class(key), version, encode(answer, version))
        error = api.error_response(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
        decode(response_class(key), version, encode(error, version))


@pytest.mark.parametrize("key", LEVELS)
def test_the_tables_of_repeated_lists_name_real_fields(key: int) -> None:
    for level in LEVELS[key]:
        response: Any = response_class(key)
        module = sys.modules[response.__module__]
        assert level.request_list in request_class(key).__slots__
        below: Any = level
        while below is not None:
            assert below.response_list in response.__slots__
            response = getattr(module, below.class_name)
            assert set(below.fields) <= set(response.__slots__)
            assert below.error_field in response.__slots__ or below.below
            below = below.below


def refused(request: Any, version: int) -> Any:
    answer: Any = refusal(request.API_KEY).handle(request, None)  # type: ignore[arg-type]
    return decode(type(answer), version, encode(answer, version))[0]


def test_topics_and_partitions_are_repeated_with_the_error() -> None:
    topics = [AddPartitionsToTxnTopic(name="a", partitions=[0, 3])]
    answer = refused(AddPartitionsToTxnRequest(v3_and_below_transactional_id="t", v3_and_below_topics=topics), 3)
    (topic,) = answer.results_by_topic_v3_and_below
    assert topic.name == "a"
    found = [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition]
    assert found == [(0, ErrorCode.UNSUPPORTED_VERSION), (3, ErrorCode.UNSUPPORTED_VERSION)]


def test_three_levels_are_repeated() -> None:
    topics = [WritableTxnMarkerTopic(name="a", partition_indexes=[7])]
    answer = refused(WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=5, topics=topics)]), 1)
    assert answer.markers[0].producer_id == 5
    assert answer.markers[0].topics[0].partitions[0].partition_index == 7
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_ids_are_repeated() -> None:
    answer = refused(DescribeTransactionsRequest(transactional_ids=["x", "y"]), 0)
    assert [each.transactional_id for each in answer.transaction_states] == ["x", "y"]
    assert {each.error_code for each in answer.transaction_states} == {ErrorCode.UNSUPPORTED_VERSION}
