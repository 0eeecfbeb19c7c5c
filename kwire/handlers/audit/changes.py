"""Lines about changes: which client has changed which topic, group, configuration, user or ACL (logger `kwire.audit`).

A change has one line at INFO, written by the broker that the client is connected to when the response says that the
change was made; a request that only validates has none. The event is the change in plain words; the fields say who it
was (``principal``, ``host``, ``client_id``, ``listener``) and what was changed. Properties are named without their
values, and passwords, salts and the HMACs of tokens are in no line. A request that changes more than `LINES_MAX` things
has a last line with the number of the others.

What lives elsewhere: decisions (`decisions`), the requests themselves (`kwire.handlers`).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kwire.base.futures import NowOrLater, in_turns, then
from kwire.base.logging import INFO, get_logger
from kwire.codec.protocol import ApiKey
from kwire.security.acls.operations import AclOperation, ResourceType

if TYPE_CHECKING:
    from kwire.handlers.api import Api
    from kwire.handlers.context import RequestContext

LOGGER_NAME: Final = "kwire.audit"
LINES_MAX: Final = 1000
"""Lines about one request."""
SLICE_LINES: Final = 50
"""Lines that are written before other clients get their turn: one or two milliseconds."""
SLICE_COUNTED: Final = 500
"""Changes without a line that are counted before other clients get their turn: a millisecond."""

Change = tuple[str, dict[str, object]]
"""An event and its fields."""

_Entity = tuple[tuple[str, str | None], ...]

Changes = Callable[[Any, Any], Iterable[Change]]
"""(request, response) -> what was changed."""

CONFIG_RESOURCES: Final = {2: "topic", 4: "broker", 8: "broker logger", 16: "client metrics", 32: "group"}
OPERATIONS: Final = ("set", "deleted", "appended", "subtracted")
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
PERMISSIONS: Final = {2: "DENY", 3: "ALLOW"}
PATTERNS: Final = {3: "LITERAL", 4: "PREFIXED"}
ELECTIONS: Final = ("preferred", "unclean")

_logger = get_logger(LOGGER_NAME)


def audited(api: Api) -> Api:
    """An API that writes lines about what its requests have changed; the API itself if they change nothing."""
    changes = CHANGES.get(api.key)
    if changes is None:
        return api

    def handle(request: Any, context: RequestContext) -> NowOrLater[Any]:
        def written(response: Any) -> NowOrLater[Any]:
            if response is None or _logger.level > INFO or context.forwarded:
                return response
            steps = lines(context, () if getattr(request, "validate_only", False) else changes(request, response))
            for _ in steps:
                return _when_written(steps, response)
            return response

        return then(api.handle(request, context), written)

    return dataclasses.replace(api, handle=handle)


async def _when_written(steps: Generator[None, None, None], response: Any) -> Any:
    """The response, after the other lines."""
    await asyncio.sleep(0)
    await in_turns(steps)
    return response


def lines(context: RequestContext, changes: Iterable[Change]) -> Generator[None, None, None]:
    """Write the lines about what a request has changed, in steps."""
    who = {
        "principal": str(context.principal),
        "host": context.client_host[1:],
        "client_id": context.client_id,
        "listener": context.listener,
    }
    left = iter(changes)
    for count, (event, what) in enumerate(islice(left, LINES_MAX)):
        if count and count % SLICE_LINES == 0:
            yield
        _logger.info(event, **who, **what)
    others = 0
    for others, _ in enumerate(left, 1):
        if others % SLICE_COUNTED == 0:
            yield
    if others:
        _logger.info("more was changed by the same request", **who, left_out=others)


def topics_created(names: Iterable[str]) -> Iterator[Change]:
    """The topics that a request for metadata has created."""
    return (("topic created", {"topic": name, "automatically": True}) for name in names)


def _made(results: Iterable[Any]) -> Iterator[Any]:
    """The results without an error."""
    return (each for each in results if not each.error_code)


def _create_topics(_request: Any, response: Any) -> Iterator[Change]:
    for each in _made(response.topics):
        yield "topic created", {"topic": each.name}


def _delete_topics(_request: Any, response: Any) -> Iterator[Change]:
    for each in _made(response.responses):
        yield "topic deleted", {"topic": each.name}


def _create_partitions(request: Any, response: Any) -> Iterator[Change]:
    counts = {each.name: each.count for each in request.topics}
    for each in _made(response.results):
        yield "partitions added", {"topic": each.name, "partitions": counts.get(each.name)}


def _delete_records(_request: Any, response: Any) -> Iterator[Change]:
    for topic in response.topics:
        starts = {each.partition_index: each.low_watermark for each in _made(topic.partitions)}
        if starts:
            yield "records deleted", {"topic": topic.name, "first_offsets": starts}


def _alter_configs(request: Any, response: Any) -> Iterator[Change]:
    asked = {(each.resource_type, each.resource_name): each.configs for each in request.resources}
    for each in _made(response.responses):
        configs = asked.get((each.resource_type, each.resource_name), ())
        yield _configs_changed(each, {"properties": sorted(config.name for config in configs), "replaced": True})


def _incremental_alter_configs(request: Any, response: Any) -> Iterator[Change]:
    asked = {(each.resource_type, each.resource_name): each.configs for each in request.resources}
    for each in _made(response.responses):
        properties: dict[str, list[str]] = {}
        for config in asked.get((each.resource_type, each.resource_name), ()):
            properties.setdefault(_word(OPERATIONS, config.config_operation), []).append(config.name)
        yield _configs_changed(each, {"properties": properties})


def _configs_changed(result: Any, fields: dict[str, object]) -> Change:
    kind = CONFIG_RESOURCES.get(result.resource_type, str(result.resource_type))
    return "configuration changed", {"resource": kind, "name": result.resource_name, **fields}


def _create_acls(request: Any, response: Any) -> Iterator[Change]:
    for each, result in zip(request.creations, response.results, strict=False):
        if not result.error_code:
            yield "ACL added", _acl(each, each.resource_pattern_type)


def _delete_acls(_request: Any, response: Any) -> Iterator[Change]:
    written: set[tuple[object, ...]] = set()
    for result in _made(response.filter_results):
        for each in _made(result.matching_acls):
            what = _acl(each, each.pattern_type)
            entry = tuple(what.values())
            if entry not in written:
                written.add(entry)
                yield "ACL deleted", what


def _acl(entry: Any, pattern: int) -> dict[str, object]:
    """An entry as fields of a line; the client's fields are ``principal`` and ``host``."""
    return {
        "acl_principal": entry.principal,
        "acl_host": entry.host,
        "permission": PERMISSIONS.get(entry.permission_type, ""),
        "operation": AclOperation(entry.operation).name,
        "resource": f"{ResourceType(entry.resource_type).name}:{PATTERNS.get(pattern, '')}:{entry.resource_name}",
    }


def _alter_users(request: Any, response: Any) -> Iterator[Change]:
    made = {each.user for each in _made(response.results)}
    for event, asked in (("credential deleted", request.deletions), ("credential set", request.upsertions)):
        for each in asked:
            if each.name in made:
                yield event, {"user": each.name, "mechanism": MECHANISMS.get(each.mechanism, "")}


def _create_token(_request: Any, response: Any) -> Iterator[Change]:
    for each in _made([response]):
        owner = f"{each.principal_type}:{each.principal_name}"
        yield "delegation token created", {"token_id": each.token_id, "owner": owner}


def _renew_token(_request: Any, response: Any) -> Iterator[Change]:
    for each in _made([response]):
        yield "delegation token renewed", {"expiry_timestamp_ms": each.expiry_timestamp_ms}


def _expire_token(_request: Any, response: Any) -> Iterator[Change]:
    for each in _made([response]):
        yield "delegation token expired", {"expiry_timestamp_ms": each.expiry_timestamp_ms}


def _reassign(request: Any, response: Any) -> Iterator[Change]:
    if response.error_code:
        return
    wanted = {
        (topic.name, each.partition_index): each.replicas for topic in request.topics for each in topic.partitions
    }
    for topic in response.responses:
        for each in _made(topic.partitions):
            replicas = wanted.get((topic.name, each.partition_index))
            event = "reassignment cancelled" if replicas is None else "replicas reassigned"
            yield event, {"topic": topic.name, "partition": each.partition_index, "replicas": replicas}


def _elect_leaders(request: Any, response: Any) -> Iterator[Change]:
    kind = _word(ELECTIONS, request.election_type)
    for topic in response.replica_election_results:
        if partitions := [each.partition_id for each in _made(topic.partition_result)]:
            yield "leaders elected", {"topic": topic.topic, "partitions": partitions, "election": kind}


def _delete_groups(_request: Any, response: Any) -> Iterator[Change]:
    for each in _made(response.results):
        yield "group deleted", {"group": each.group_id}


def _alter_share_offsets(request: Any, response: Any) -> Iterator[Change]:
    """One line for a topic of the group: a request may name very many partitions."""
    wanted = {
        topic.topic_name: {each.partition_index: each.start_offset for each in topic.partitions}
        for topic in request.topics
    }
    for topic in response.responses:
        done = [each.partition_index for each in topic.partitions if not each.error_code]
        if done:
            offsets = {str(index): wanted[topic.topic_name][index] for index in done}
            fields = {"group": request.group_id, "topic": topic.topic_name, "start_offsets": offsets}
            yield "share group offsets set", fields


def _delete_share_offsets(request: Any, response: Any) -> Iterator[Change]:
    for topic in response.responses:
        if not topic.error_code:
            yield "share group offsets deleted", {"group": request.group_id, "topic": topic.topic_name}


def _delete_offsets(request: Any, response: Any) -> Iterator[Change]:
    for topic in response.topics if not response.error_code else ():
        if partitions := [each.partition_index for each in _made(topic.partitions)]:
            what = {"group": request.group_id, "topic": topic.name, "partitions": partitions}
            yield "offsets deleted", what


def _update_features(request: Any, response: Any) -> Iterator[Change]:
    failed = {each.feature for each in response.results if each.error_code}
    for each in request.feature_updates if not response.error_code else ():
        if each.feature not in failed:
            yield "feature changed", {"feature": each.feature, "level": each.max_version_level}


def _unregister_broker(request: Any, response: Any) -> Iterator[Change]:
    if not response.error_code:
        yield "broker unregistered", {"broker": request.broker_id}


def _move_replicas(request: Any, response: Any) -> Iterator[Change]:
    paths = {(topic.name, each): to.path for to in request.dirs for topic in to.topics for each in topic.partitions}
    for topic in response.results:
        for each in _made(topic.partitions):
            path = paths.get((topic.topic_name, each.partition_index))
            what = {"topic": topic.topic_name, "partition": each.partition_index, "directory": path}
            yield "replica moved to a directory", what


def _alter_quotas(request: Any, response: Any) -> Iterator[Change]:
    asked: dict[_Entity, Any] = {}
    left = iter(request.entries)  # in the response's order, so that few are looked at for each line
    for each in _made(response.entries):
        entity = _entity(each)
        while entity not in asked and (entry := next(left, None)) is not None:
            asked[_entity(entry)] = entry.ops
        quotas = {op.key: None if op.remove else op.value for op in asked.get(entity, ())}
        yield "quotas changed", {"entity": dict(entity), "quotas": quotas}


def _entity(entry: Any) -> _Entity:
    """Its names by type. The response may have them in another order than the request."""
    return tuple(sorted(((each.entity_type, each.entity_name) for each in entry.entity), key=itemgetter(0)))


def _word(words: tuple[str, ...], code: int) -> str:
    return words[code] if 0 <= code < len(words) else str(code)


CHANGES: Final[dict[int, Changes]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_users,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_token,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _delete_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _alter_share_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _delete_share_offsets,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.UNREGISTER_BROKER: _unregister_broker,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _move_replicas,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
}
