"""One request of every API, or several, each with the ACLs that it needs: plain fields, which messages are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from compat_tests.comparisons.access.acls import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CREATE,
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOKENS,
    GROUP,
    IDEMPOTENT_WRITE,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    WRITE,
    Acl,
)
from compat_tests.comparisons.data.requests import batch
from kwire.codec.protocol import ApiKey

Fields = Mapping[str, Any]


class World(NamedTuple):
    """What requests refer to: the ids of topics by name, and a number that no other request has."""

    ids: Mapping[str, bytes]
    number: int


class Case(NamedTuple):
    """A request of an API. ``fields`` are the request's, or a function of the world that returns them. ``needs``: the
    ACLs without which the answer differs, or might."""

    api: ApiKey
    version: int
    fields: Fields | Callable[[World], Fields]
    needs: tuple[Acl, ...]
    name: str = ""

    @property
    def title(self) -> str:
        """The name of its test."""
        return f"{self.api.name.lower()}-v{self.version}{'-' + self.name if self.name else ''}"

    def message(self, world: World) -> Any:
        """The request."""
        module = import_module(f"kwire.codec.messages.{self.api.name.lower()}_request")
        kind = "".join(word.capitalize() for word in self.api.name.split("_")) + "Request"
        return _made(module, kind, self.fields(world) if callable(self.fields) else self.fields)


def _made(module: Any, kind: str, fields: Fields) -> Any:
    """A message or struct of a module."""
    cls = getattr(module, kind)
    types = {line.split()[0]: line.split()[1].removeprefix("[]") for line in cls.FIELDS.strip().splitlines()}
    values = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            values[name] = _made(module, types[name], value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            values[name] = [_made(module, types[name], each) for each in value]
        else:
            values[name] = value
    return cls(**values)


def on(kind: int, operation: int, name: str, pattern: int = LITERAL) -> Acl:
    """An ACL for alice."""
    return Acl(kind, name, pattern, operation=operation)


def cluster(operation: int) -> Acl:
    """An ACL for alice on the cluster."""
    return on(CLUSTER, operation, "kafka-cluster")


ONE, TWO, MISSING, GROUP_ID, TXN = "one", "two", "missing", "group", "txn"
TOPICS = (ONE, TWO, MISSING)
NAMES = [ONE, MISSING]


def partitions(key: str, **fields: Any) -> Callable[..., list[Fields]]:
    """Partition 0 of topics by name or id. ``key``: the field that has the number of the partition."""

    def of(*topics: Any, name: str = "name", inner: str = "partitions") -> list[Fields]:
        return [{name: topic, inner: [{key: 0, **fields}]} for topic in topics]

    return of


def produced(version: int, topics: tuple[str, ...] = (ONE, MISSING), **fields: Any) -> Callable[[World], Fields]:
    def of(world: World) -> Fields:
        data = [{"index": 0, "records": batch(b"v", **fields)}]
        by_id = version >= 13
        return {
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [
                {("topic_id" if by_id else "name"): world.ids[each] if by_id else each, "partition_data": data}
                for each in topics
            ],
        }

    return of


def transactional(version: int, transactional_id: str | None) -> Callable[[World], Fields]:
    """A batch of a transaction, with the request's transactional id or (as CVE-2018-17196) without one."""
    of = produced(version, (ONE,), producer_id=4711, producer_epoch=0, base_sequence=0, is_transactional=True)
    return lambda world: {**of(world), "transactional_id": transactional_id}


def fetched(version: int, *topics: str, **fields: Any) -> Callable[[World], Fields]:
    def of(world: World) -> Fields:
        by_id = version >= 13
        one = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        return {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "topics": [
                {("topic_id" if by_id else "topic"): world.ids[each] if by_id else each, "partitions": [one]}
                for each in topics
            ],
            **fields,
        }

    return of


def renamed(prefix: str, key: str, **fields: Any) -> Callable[[World], Fields]:
    """A request about one thing with a name of its own."""
    return lambda world: {key: [{"name": f"{prefix}{world.number}", **fields}], "timeout_ms": 5000}


READ_ONE, WRITE_ONE, DESCRIBE_ONE = (on(TOPIC, each, ONE) for each in (READ, WRITE, DESCRIBE))
READ_GROUP, DESCRIBE_GROUP, DELETE_GROUP = (on(GROUP, each, GROUP_ID) for each in (READ, DESCRIBE, DELETE))
WRITE_TXN, DESCRIBE_TXN = (on(TRANSACTIONAL_ID, each, TXN) for each in (WRITE, DESCRIBE))
PRODUCER = {"producer_id": 4711, "producer_epoch": 0}
OFFSETS = partitions("partition_index", committed_offset=1, committed_metadata="")
K = ApiKey
RESOURCES = [(2, ONE), (4, "1"), (4, ""), (8, "1"), (32, GROUP_ID), (16, "metrics")]
CONFIGS = {2: ("retention.ms", "1000"), 4: ("log.retention.ms", "1000"), 8: ("root", "INFO")}
ALL_CONFIGS = (on(TOPIC, DESCRIBE_CONFIGS, ONE), cluster(DESCRIBE_CONFIGS), on(GROUP, DESCRIBE_CONFIGS, GROUP_ID))
CHANGED_CONFIGS = (on(TOPIC, ALTER_CONFIGS, ONE), cluster(ALTER_CONFIGS), on(GROUP, ALTER_CONFIGS, GROUP_ID))


NO_ACL = {"resource_type": 2, "principal": "nobody", "host": "*", "operation": 3, "permission_type": 3}


def config_changes(operation: int | None) -> Fields:
    """Changes of all kinds of resources, only to be validated."""
    more = {} if operation is None else {"config_operation": operation}
    settings = {
        **CONFIGS,
        32: ("consumer.session.timeout.ms", "46000"),
        16: ("interval.ms", "1000"),
    }
    return {
        "validate_only": True,
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": settings[kind][0], "value": settings[kind][1], **more}],
            }
            for kind, name in RESOURCES
            if operation is not None or kind != 8
        ],
    }


def offsets_by_id(world: World) -> Fields:
    topics = [
        {"topic_id": world.ids[each], "partitions": [{"partition_index": 0, "committed_offset": 1}]} for each in TOPICS
    ]
    return {"group_id": GROUP_ID, "topics": topics}


def fetched_offsets(world: World) -> Fields:
    topics = [{"topic_id": world.ids[each], "partition_indexes": [0]} for each in TOPICS]
    return {"groups": [{"group_id": GROUP_ID, "topics": topics}, {"group_id": "other", "topics": topics}]}


def token_owner(name: str | None) -> Fields:
    kind = None if name is None else "User"
    return {"owner_principal_type": kind, "owner_principal_name": name, "renewers": [], "max_lifetime_ms": -1}


CASES = (
    Case(K.PRODUCE, 9, produced(9), (WRITE_ONE, DESCRIBE_ONE, READ_ONE)),
    Case(K.PRODUCE, 12, produced(12, (ONE,)), (WRITE_ONE,)),
    Case(K.PRODUCE, 13, produced(13, TOPICS), (WRITE_ONE, DESCRIBE_ONE)),
    *(
        Case(
            K.PRODUCE,
            12,
            transactional(12, transactional_id),
            (WRITE_ONE, WRITE_TXN, cluster(IDEMPOTENT_WRITE)),
            f"transactional-{transactional_id}",
        )
        for transactional_id in (None, TXN)
    ),
    Case(K.FETCH, 12, fetched(12, *TOPICS), (READ_ONE, DESCRIBE_ONE, cluster(CLUSTER_ACTION))),
    Case(K.FETCH, 18, fetched(18, *TOPICS), (READ_ONE, DESCRIBE_ONE, cluster(CLUSTER_ACTION))),
    Case(K.FETCH, 12, fetched(12, *TOPICS, replica_id=2), (READ_ONE, cluster(CLUSTER_ACTION)), "replica"),
    Case(
        K.FETCH,
        15,
        fetched(15, *TOPICS, replica_state={"replica_id": 2}),
        (READ_ONE, cluster(CLUSTER_ACTION)),
        "replica",
    ),
    Case(
        K.LIST_OFFSETS,
        11,
        {"replica_id": -1, "topics": partitions("partition_index", timestamp=-1)(*TOPICS)},
        (DESCRIBE_ONE, READ_ONE),
    ),
    Case(
        K.LIST_OFFSETS,
        2,
        {"replica_id": 1, "topics": partitions("partition_index", timestamp=-1)(*TOPICS)},
        (DESCRIBE_ONE, cluster(CLUSTER_ACTION)),
        "replica",
    ),
    Case(
        K.METADATA,
        10,
        {
            "topics": [{"name": each} for each in TOPICS],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        },
        (DESCRIBE_ONE, on(TOPIC, ALTER, TWO), cluster(DESCRIBE), cluster(ALTER)),
    ),
    Case(
        K.METADATA,
        13,
        lambda world: {
            "topics": [{"name": None, "topic_id": world.ids[each]} for each in TOPICS],
            "allow_auto_topic_creation": False,
        },
        (DESCRIBE_ONE, READ_ONE),
        "ids",
    ),
    Case(
        K.METADATA,
        13,
        {"topics": None, "include_topic_authorized_operations": True},
        (DESCRIBE_ONE, on(TOPIC, READ, TWO), on(TOPIC, DELETE, ONE)),
        "all",
    ),
    Case(
        K.METADATA,
        13,
        lambda world: {"topics": [{"name": f"automatic{world.number}"}], "allow_auto_topic_creation": True},
        (on(TOPIC, DESCRIBE, "automatic", PREFIXED), on(TOPIC, CREATE, "automatic", PREFIXED), cluster(CREATE)),
        "automatic",
    ),
    Case(K.OFFSET_COMMIT, 9, {"group_id": GROUP_ID, "topics": OFFSETS(*TOPICS)}, (READ_GROUP, READ_ONE, DESCRIBE_ONE)),
    Case(K.OFFSET_COMMIT, 10, offsets_by_id, (READ_GROUP, READ_ONE, DESCRIBE_ONE)),
    Case(
        K.OFFSET_FETCH,
        7,
        {"group_id": GROUP_ID, "topics": [{"name": each, "partition_indexes": [0]} for each in TOPICS]},
        (DESCRIBE_GROUP, DESCRIBE_ONE, READ_GROUP),
    ),
    Case(K.OFFSET_FETCH, 7, {"group_id": GROUP_ID, "topics": None}, (DESCRIBE_GROUP, DESCRIBE_ONE), "all"),
    Case(
        K.OFFSET_FETCH,
        9,
        {"groups": [{"group_id": each, "topics": None} for each in (GROUP_ID, "other")]},
        (DESCRIBE_GROUP, DESCRIBE_ONE, on(TOPIC, READ, TWO)),
        "all",
    ),
    Case(K.OFFSET_FETCH, 10, fetched_offsets, (DESCRIBE_GROUP, DESCRIBE_ONE)),
    Case(K.FIND_COORDINATOR, 3, {"key": GROUP_ID, "key_type": 0}, (DESCRIBE_GROUP, READ_GROUP)),
    Case(K.FIND_COORDINATOR, 6, {"key_type": 0, "coordinator_keys": [GROUP_ID, "other"]}, (DESCRIBE_GROUP,)),
    Case(K.FIND_COORDINATOR, 3, {"key": TXN, "key_type": 1}, (DESCRIBE_TXN, WRITE_TXN), "txn"),
    Case(K.FIND_COORDINATOR, 6, {"key_type": 1, "coordinator_keys": [TXN, "other"]}, (DESCRIBE_TXN,), "txn"),
    Case(
        K.FIND_COORDINATOR,
        6,
        {"key_type": 2, "coordinator_keys": ["g:AAECAwQFBgcICQoLDA0ODw:0", "no key"]},
        (cluster(CLUSTER_ACTION),),
        "share",
    ),
    Case(
        K.JOIN_GROUP,
        9,
        {
            "group_id": "joined",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        (on(GROUP, READ, "joined"), on(GROUP, DESCRIBE, "joined")),
    ),
    Case(K.HEARTBEAT, 4, {"group_id": GROUP_ID, "generation_id": 1, "member_id": "m"}, (READ_GROUP,)),
    Case(K.LEAVE_GROUP, 5, {"group_id": GROUP_ID, "members": [{"member_id": "m"}]}, (READ_GROUP,)),
    Case(K.SYNC_GROUP, 5, {"group_id": GROUP_ID, "generation_id": 1, "member_id": "m"}, (READ_GROUP,)),
    Case(
        K.DESCRIBE_GROUPS,
        5,
        {"groups": [GROUP_ID, "other"], "include_authorized_operations": True},
        (DESCRIBE_GROUP, READ_GROUP, DELETE_GROUP),
    ),
    Case(K.LIST_GROUPS, 5, {}, (DESCRIBE_GROUP, cluster(DESCRIBE), READ_GROUP)),
    Case(
        K.CREATE_TOPICS,
        7,
        lambda world: {
            "topics": [
                {"name": f"{name}{world.number}", "num_partitions": 1, "replication_factor": 1}
                for name in ("created", "other")
            ],
            "timeout_ms": 5000,
            "validate_only": True,
        },
        (
            on(TOPIC, CREATE, "created", PREFIXED),
            cluster(CREATE),
            on(TOPIC, DESCRIBE_CONFIGS, "created", PREFIXED),
        ),
    ),
    Case(
        K.DELETE_TOPICS,
        5,
        lambda world: {"topic_names": [f"victim{world.number}", MISSING, TWO], "timeout_ms": 5000},
        (on(TOPIC, DELETE, "victim", PREFIXED), on(TOPIC, DESCRIBE, "victim", PREFIXED), on(TOPIC, DESCRIBE, TWO)),
    ),
    Case(
        K.DELETE_TOPICS,
        6,
        lambda world: {"topics": [{"topic_id": world.ids[each]} for each in TOPICS], "timeout_ms": 5000},
        (DESCRIBE_ONE, on(TOPIC, DESCRIBE, TWO)),
        "ids",
    ),
    Case(
        K.DELETE_TOPICS,
        6,
        lambda world: {"topics": [{"name": f"victim{world.number}"}, {"name": MISSING}], "timeout_ms": 5000},
        (cluster(DELETE), on(TOPIC, DESCRIBE, "victim", PREFIXED)),
        "cluster",
    ),
    Case(
        K.DELETE_RECORDS,
        2,
        {"topics": partitions("partition_index", offset=0)(*TOPICS), "timeout_ms": 5000},
        (on(TOPIC, DELETE, ONE), DESCRIBE_ONE),
    ),
    Case(
        K.INIT_PRODUCER_ID,
        5,
        {"transactional_id": None, "transaction_timeout_ms": 1000},
        (cluster(IDEMPOTENT_WRITE), WRITE_ONE, DESCRIBE_ONE),
    ),
    Case(
        K.INIT_PRODUCER_ID,
        5,
        {"transactional_id": TXN, "transaction_timeout_ms": 60_000},
        (WRITE_TXN, DESCRIBE_TXN, cluster(IDEMPOTENT_WRITE)),
        "txn",
    ),
    Case(
        K.OFFSET_FOR_LEADER_EPOCH,
        4,
        {"replica_id": -1, "topics": partitions("partition", leader_epoch=0)(*TOPICS, name="topic")},
        (DESCRIBE_ONE, cluster(CLUSTER_ACTION)),
    ),
    Case(
        K.ADD_PARTITIONS_TO_TXN,
        3,
        {
            "v3_and_below_transactional_id": TXN,
            "v3_and_below_producer_id": 4711,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": each, "partitions": [0]} for each in TOPICS],
        },
        (WRITE_TXN, WRITE_ONE, DESCRIBE_ONE),
    ),
    Case(
        K.ADD_PARTITIONS_TO_TXN,
        5,
        {
            "transactions": [
                {"transactional_id": TXN, **PRODUCER, "topics": [{"name": each, "partitions": [0]} for each in TOPICS]}
            ]
        },
        (cluster(CLUSTER_ACTION), WRITE_TXN, WRITE_ONE),
    ),
    Case(
        K.ADD_OFFSETS_TO_TXN,
        4,
        {"transactional_id": TXN, **PRODUCER, "group_id": GROUP_ID},
        (WRITE_TXN, READ_GROUP, DESCRIBE_GROUP),
    ),
    Case(K.END_TXN, 5, {"transactional_id": TXN, **PRODUCER, "committed": True}, (WRITE_TXN, DESCRIBE_TXN)),
    Case(
        K.WRITE_TXN_MARKERS,
        1,
        {
            "markers": [
                {
                    **PRODUCER,
                    "transaction_result": True,
                    "topics": [{"name": each, "partition_indexes": [0]} for each in (ONE, MISSING)],
                    "coordinator_epoch": 0,
                }
            ]
        },
        (cluster(ALTER), cluster(CLUSTER_ACTION)),
    ),
    Case(
        K.TXN_OFFSET_COMMIT,
        3,
        {"transactional_id": TXN, "group_id": GROUP_ID, **PRODUCER, "member_id": "", "topics": OFFSETS(*TOPICS)},
        (WRITE_TXN, READ_GROUP, READ_ONE, DESCRIBE_ONE),
    ),
    Case(K.DESCRIBE_ACLS, 3, Acl(1, None, 1, None, None, 1, 1).filter_fields, (cluster(DESCRIBE), cluster(ALTER))),
    Case(
        K.CREATE_ACLS,
        3,
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "x",
                    "principal": "nobody",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
        (cluster(ALTER), cluster(DESCRIBE)),
    ),
    Case(
        K.DELETE_ACLS,
        3,
        {"filters": [Acl(2, "nothing", 3).filter_fields]},
        (cluster(ALTER), cluster(DESCRIBE)),
    ),
    Case(
        K.DESCRIBE_CONFIGS,
        4,
        {"resources": [{"resource_type": k, "resource_name": n, "configuration_keys": ["x"]} for k, n in RESOURCES]},
        ALL_CONFIGS,
    ),
    Case(
        K.DESCRIBE_CONFIGS,
        4,
        {"resources": [{"resource_type": 2, "resource_name": n, "configuration_keys": ["x"]} for n in TOPICS]},
        (ALL_CONFIGS[0], DESCRIBE_ONE),
        "topics",
    ),
    Case(K.ALTER_CONFIGS, 2, config_changes(None), CHANGED_CONFIGS),
    Case(K.INCREMENTAL_ALTER_CONFIGS, 1, config_changes(0), CHANGED_CONFIGS),
    Case(
        K.ALTER_REPLICA_LOG_DIRS,
        2,
        {"dirs": [{"path": "/nowhere", "topics": [{"name": ONE, "partitions": [0]}]}]},
        (cluster(ALTER),),
    ),
    Case(K.DESCRIBE_LOG_DIRS, 4, {"topics": []}, (cluster(DESCRIBE),)),
    Case(
        K.CREATE_PARTITIONS,
        3,
        {
            "topics": [{"name": each, "count": 2, "assignments": None} for each in TOPICS],
            "timeout_ms": 5000,
            "validate_only": True,
        },
        (on(TOPIC, ALTER, ONE), DESCRIBE_ONE, cluster(ALTER)),
    ),
    Case(K.CREATE_DELEGATION_TOKEN, 3, token_owner(None), (cluster(CREATE),)),
    Case(K.CREATE_DELEGATION_TOKEN, 3, token_owner("bob"), (on(USER, CREATE_TOKENS, "User:bob"),), "owner"),
    Case(K.RENEW_DELEGATION_TOKEN, 2, {"hmac": b"x", "renew_period_ms": 1}, ()),
    Case(K.EXPIRE_DELEGATION_TOKEN, 2, {"hmac": b"x", "expiry_time_period_ms": 1}, ()),
    Case(
        K.DESCRIBE_DELEGATION_TOKEN,
        3,
        {"owners": None},
        (on(USER, DESCRIBE_TOKENS, "User:bob"), on(DELEGATION_TOKEN, DESCRIBE, "x")),
    ),
    Case(K.DELETE_GROUPS, 2, {"groups_names": ["unknown", "other"]}, (on(GROUP, DELETE, "unknown"),)),
    Case(
        K.ELECT_LEADERS,
        2,
        {"election_type": 0, "topic_partitions": [{"topic": each, "partitions": [0]} for each in NAMES]},
        (cluster(ALTER),),
    ),
    Case(
        K.ALTER_PARTITION_REASSIGNMENTS,
        1,
        {"topics": [{"name": MISSING, "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
        (cluster(ALTER), cluster(DESCRIBE)),
    ),
    Case(
        K.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"topics": [{"name": ONE, "partition_indexes": [0]}]},
        (cluster(DESCRIBE), cluster(ALTER)),
    ),
    Case(
        K.OFFSET_DELETE,
        0,
        {"group_id": "empty", "topics": partitions("partition_index")(*TOPICS)},
        (on(GROUP, DELETE, "empty"), READ_ONE, DESCRIBE_ONE),
    ),
    Case(K.DESCRIBE_CLIENT_QUOTAS, 1, {"components": []}, (cluster(DESCRIBE_CONFIGS), cluster(DESCRIBE))),
    Case(
        K.ALTER_CLIENT_QUOTAS,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": name}, {"entity_type": "client-id"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e9}],
                }
                for name in ("alice", "bob")
            ],
            "validate_only": True,
        },
        (cluster(ALTER_CONFIGS), cluster(ALTER), cluster(DESCRIBE_CONFIGS)),
    ),
    Case(K.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": [{"name": "alice"}, {"name": "bob"}]}, (cluster(DESCRIBE),)),
    Case(
        K.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        {"deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": []},
        (cluster(ALTER), cluster(DESCRIBE)),
    ),
    Case(
        K.DESCRIBE_QUORUM,
        2,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        (cluster(DESCRIBE),),
    ),
    Case(
        K.UPDATE_FEATURES,
        2,
        {"feature_updates": [{"feature": "nonsense", "max_version_level": 1}], "validate_only": True},
        (cluster(ALTER), cluster(DESCRIBE)),
    ),
    Case(
        K.DESCRIBE_CLUSTER,
        2,
        {"include_cluster_authorized_operations": True},
        (cluster(DESCRIBE), cluster(ALTER), cluster(CREATE)),
    ),
    Case(
        K.DESCRIBE_PRODUCERS,
        0,
        {"topics": [{"name": each, "partition_indexes": [0]} for each in TOPICS]},
        (READ_ONE, DESCRIBE_ONE),
    ),
    *(
        Case(
            key,
            0,
            {"group_id": "g", "topics": [{"topic_id": bytes(range(16)), "partitions": [{"partition": 0}]}]},
            (cluster(CLUSTER_ACTION),),
        )
        for key in (
            K.INITIALIZE_SHARE_GROUP_STATE,
            K.READ_SHARE_GROUP_STATE,
            K.WRITE_SHARE_GROUP_STATE,
            K.DELETE_SHARE_GROUP_STATE,
            K.READ_SHARE_GROUP_STATE_SUMMARY,
        )
    ),
    Case(K.ADD_RAFT_VOTER, 1, {"cluster_id": None, "voter_id": 5}, (cluster(ALTER),)),
    Case(K.REMOVE_RAFT_VOTER, 0, {"cluster_id": None, "voter_id": 5}, (cluster(ALTER),)),
    Case(K.UNREGISTER_BROKER, 0, {"broker_id": 99}, (cluster(ALTER),)),
    Case(
        K.DESCRIBE_TRANSACTIONS,
        0,
        {"transactional_ids": [TXN, "other"]},
        (DESCRIBE_TXN, DESCRIBE_ONE),
    ),
    Case(K.LIST_TRANSACTIONS, 2, {"state_filters": [], "producer_id_filters": []}, (DESCRIBE_TXN,)),
    Case(
        K.CONSUMER_GROUP_HEARTBEAT,
        1,
        lambda world: {
            "group_id": "modern",
            "member_id": f"member{world.number}",
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [ONE, TWO],
            "topic_partitions": [],
        },
        (on(GROUP, READ, "modern"), DESCRIBE_ONE, on(TOPIC, READ, TWO)),
    ),
    Case(
        K.CONSUMER_GROUP_DESCRIBE,
        1,
        {"group_ids": ["described", "other"], "include_authorized_operations": True},
        (on(GROUP, DESCRIBE, "described"), DESCRIBE_ONE, on(TOPIC, READ, TWO)),
    ),
    Case(
        K.STREAMS_GROUP_HEARTBEAT,
        0,
        lambda world: {
            "group_id": "streams",
            "member_id": f"member{world.number}",
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "topology": {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": [ONE, TWO]}]},
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        },
        (on(GROUP, READ, "streams"), DESCRIBE_ONE, on(TOPIC, READ, TWO)),
    ),
    Case(
        K.STREAMS_GROUP_DESCRIBE,
        0,
        {"group_ids": ["streamed", "other"], "include_authorized_operations": True},
        (on(GROUP, DESCRIBE, "streamed"), DESCRIBE_ONE, on(TOPIC, READ, TWO)),
    ),
    Case(
        K.SHARE_GROUP_HEARTBEAT,
        1,
        lambda world: {
            "group_id": "share",
            "member_id": f"member{world.number}",
            "member_epoch": 0,
            "subscribed_topic_names": [ONE, TWO],
        },
        (on(GROUP, READ, "share"), DESCRIBE_ONE, on(TOPIC, READ, TWO)),
    ),
    Case(
        K.SHARE_GROUP_DESCRIBE,
        1,
        {"group_ids": ["shared", "other"], "include_authorized_operations": True},
        (on(GROUP, DESCRIBE, "shared"), DESCRIBE_ONE),
    ),
    Case(
        K.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        {
            "groups": [
                {"group_id": "unshared", "topics": [{"topic_name": each, "partitions": [0]} for each in TOPICS]},
                {"group_id": "other", "topics": []},
            ]
        },
        (on(GROUP, DESCRIBE, "unshared"), DESCRIBE_ONE, READ_ONE),
    ),
    Case(
        K.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        {"groups": [{"group_id": "shared", "topics": None}]},
        (on(GROUP, DESCRIBE, "shared"), DESCRIBE_ONE),
        "all",
    ),
    Case(
        K.ALTER_SHARE_GROUP_OFFSETS,
        0,
        {
            "group_id": "altered",
            "topics": [
                {"topic_name": each, "partitions": [{"partition_index": 0, "start_offset": 3}]} for each in TOPICS
            ],
        },
        (on(GROUP, READ, "altered"), on(GROUP, ALTER, "altered"), READ_ONE),
    ),
    Case(
        K.DELETE_SHARE_GROUP_OFFSETS,
        0,
        {"group_id": "altered", "topics": [{"topic_name": each} for each in TOPICS]},
        (on(GROUP, DELETE, "altered"), on(GROUP, READ, "altered"), READ_ONE),
    ),
    Case(
        K.SHARE_FETCH,
        2,
        lambda world: {
            "group_id": "share",
            "member_id": f"fetcher{world.number}",
            "topics": [
                {"topic_id": world.ids[each], "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}
                for each in (ONE, TWO)
            ],
            "forgotten_topics_data": [],
        },
        (on(GROUP, READ, "share"), READ_ONE, DESCRIBE_ONE),
    ),
    Case(
        K.SHARE_ACKNOWLEDGE,
        2,
        lambda world: {
            "group_id": "share",
            "member_id": f"member{world.number}",
            "share_session_epoch": 1,
            "topics": [
                {"topic_id": world.ids[each], "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}
                for each in TOPICS
            ],
        },
        (on(GROUP, READ, "share"), READ_ONE),
    ),
    Case(K.LIST_CONFIG_RESOURCES, 1, {"resource_types": [16]}, (cluster(DESCRIBE_CONFIGS), cluster(DESCRIBE))),
    Case(
        K.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {"topics": [{"name": each} for each in TOPICS]},
        (DESCRIBE_ONE, on(TOPIC, ALTER, ONE)),
    ),
    Case(K.DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []}, (DESCRIBE_ONE,), "all"),
)

WITHOUT_ACCESS_CONTROL = frozenset(
    {K.API_VERSIONS, K.SASL_HANDSHAKE, K.SASL_AUTHENTICATE, K.GET_TELEMETRY_SUBSCRIPTIONS, K.PUSH_TELEMETRY}
)
