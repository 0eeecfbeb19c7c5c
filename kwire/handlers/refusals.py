"""Well-formed error responses for the APIs that Kafka serves and kwire does not (yet).

Such an API is not advertised, so clients that check ApiVersions do without it. Other clients get a response in which
everything they requested failed with UNSUPPORTED_VERSION. Of the request, only the fields that the response must repeat
are read.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.codec.protocol import API_FACTS, ApiKey, response_class
from kwire.handlers.api import Api, top_level_error
from kwire.handlers.context import RequestContext


class Level(NamedTuple):
    """A list in the response that repeats a list of the request, each item with an error.

    ``fields``: response field -> request field; "" is the item itself (in a list of ids).
    """

    response_list: str
    request_list: str
    class_name: str
    fields: dict[str, str]
    below: Level | None = None
    error_field: str = "error_code"


_NAME: Final = {"name": "name"}
_INDEX: Final = {"partition_index": "partition_index"}
_GROUPS: Final = Level("groups", "group_ids", "DescribedGroup", {"group_id": ""})


def _topics_v0_to_3() -> Level:
    partitions = Level(
        "results_by_partition",
        "partitions",
        "AddPartitionsToTxnPartitionResult",
        {"partition_index": ""},
        error_field="partition_error_code",
    )
    return Level(
        "results_by_topic_v3_and_below", "v3_and_below_topics", "AddPartitionsToTxnTopicResult", _NAME, partitions
    )


def _markers() -> Level:
    partitions = Level("partitions", "partition_indexes", "WritableTxnMarkerPartitionResult", {"partition_index": ""})
    topics = Level("topics", "topics", "WritableTxnMarkerTopicResult", _NAME, partitions)
    return Level("markers", "markers", "WritableTxnMarkerResult", {"producer_id": "producer_id"}, topics)


LEVELS: Final[dict[int, tuple[Level, ...]]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: (_topics_v0_to_3(),),
    ApiKey.WRITE_TXN_MARKERS: (_markers(),),
    ApiKey.TXN_OFFSET_COMMIT: (
        Level(
            "topics",
            "topics",
            "TxnOffsetCommitResponseTopic",
            _NAME,
            Level("partitions", "partitions", "TxnOffsetCommitResponsePartition", _INDEX),
        ),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        Level("transaction_states", "transactional_ids", "TransactionState", {"transactional_id": ""}),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_GROUPS,),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        Level("groups", "groups", "DescribeShareGroupOffsetsResponseGroup", {"group_id": "group_id"}),
    ),
}


def refusal(key: int) -> Api:
    """The declaration of an API that is served, in all of Kafka's versions, with error responses only."""
    facts = API_FACTS[key]
    name = "".join(word.capitalize() for word in facts.stem.split("_"))
    code, message = ErrorCode.UNSUPPORTED_VERSION, f"{name} is not supported by this broker yet."

    def handle(request: Any, context: RequestContext) -> Any:
        return refuse(key, request, code, message)

    def error_response(request: Any, version: int, error: ErrorCode, text: str | None) -> Any:
        return refuse(key, request, error, text)

    return Api(
        ApiKey(key),
        served=(facts.first_version, facts.last_version),
        advertised=None,
        handle=handle,
        error_response=error_response,
    )


def refuse(key: int, request: Any, code: ErrorCode, message: str | None) -> Any:
    """A response in which everything requested failed with one error."""
    cls = response_class(key)
    response = top_level_error(cls, code, message) if "error_code" in cls.__slots__ else cls()
    for level in LEVELS.get(key, ()):
        _repeat(level, request, response, code, message)
    return response


def _repeat(level: Level, request: Any, response: Any, code: ErrorCode, message: str | None) -> None:
    """Fill one list of the response, and the lists inside its items, from the request."""
    cls = getattr(import_module(type(response).__module__), level.class_name)
    results = getattr(response, level.response_list)
    for item in getattr(request, level.request_list) or ():
        result = cls()
        for to, source in level.fields.items():
            setattr(result, to, getattr(item, source) if source else item)
        if level.error_field in cls.__slots__:
            setattr(result, level.error_field, int(code))
        if "error_message" in cls.__slots__:
            result.error_message = message
        if level.below is not None:
            _repeat(level.below, item, result, code, message)
        results.append(result)
