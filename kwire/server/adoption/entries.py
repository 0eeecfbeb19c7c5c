"""What Apache Kafka's metadata says, as keys and values of kwire's metadata store.

What kwire cannot have is left out and named, never with the value of a broker's property: it may be a password. An ACL
is never left out, because it may deny access: `StartError`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kwire.base.config import ConfigError
from kwire.base.config.resources import MIN_ISR, ResourceValidator
from kwire.base.errors import KafkaError
from kwire.cluster.controller.credentials import check_name
from kwire.cluster.metadata.acls import acl_key, pack_acl
from kwire.cluster.metadata.client_quotas import pack_quotas, quota_key
from kwire.cluster.metadata.credentials import pack_credential, pack_token
from kwire.cluster.store import keys
from kwire.cluster.store.keys import ConfigResource
from kwire.cluster.store.store import KEY_CHARACTERS_MAX, VALUE_BYTES_MAX
from kwire.handlers.security.create_acls import check
from kwire.quotas.rules import check_quotas
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType
from kwire.security.delegation_tokens import DelegationToken
from kwire.security.principals import parse_principal
from kwire.security.scram_credentials import ScramCredential, ScramMechanism
from kwire.server.errors import StartError

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.cluster.kraft.metadata import KafkaMetadata
    from kwire.codec.messages.access_control_entry_record import AccessControlEntryRecord

SHOWN_MAX: Final = 200
"""Characters that are shown of a name or a line."""

_TOKEN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_NOT_IN_ENTRIES: Final = frozenset({"UNKNOWN", "ANY", "MATCH"})


@dataclass(slots=True)
class Taken:
    """What is taken: ``values`` by key for the store; ``names`` and ``counts`` of it for people, by kind."""

    values: dict[str, bytes] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)

    def add(self, kind: str, name: str, key: str, value: bytes) -> None:
        """Take something, unless the store cannot have it."""
        if len(key) > KEY_CHARACTERS_MAX or len(value) > VALUE_BYTES_MAX:
            self.leave_out(f"{kind}: {name}: too long")
            return
        name = _printable(name)
        self.counts[kind] += key not in self.values
        self.values[key] = value
        listed = self.names.setdefault(kind, [])
        if name not in listed[-1:]:
            listed.append(name)

    def leave_out(self, line: str) -> None:
        """Leave something out."""
        self.left_out.append(_printable(line))


def _printable(text: str) -> str:
    """At most `SHOWN_MAX` characters, in one line."""
    short = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in short)


def take(
    metadata: KafkaMetadata, config: KafkaConfig, topics: Mapping[str, bytes | None], *, with_security: bool
) -> Taken:
    """What kwire takes of the metadata, for a directory with these topics (ids by name). ``with_security``: also ACLs,
    users and tokens. `StartError` for an ACL that kwire cannot have."""
    taken = Taken(left_out=list(metadata.notes))
    _take_configs(taken, metadata, config, topics)
    _take_quotas(taken, metadata)
    if metadata.next_producer_id > 0:
        taken.values[keys.PRODUCER_IDS] = keys.pack(next=metadata.next_producer_id)
    if with_security:
        _take_acls(taken, metadata)
        _take_users(taken, metadata)
        _take_tokens(taken, metadata)
    else:
        _leave_out_security(taken, metadata)
    return taken


def _take_configs(
    taken: Taken, metadata: KafkaMetadata, config: KafkaConfig, topics: Mapping[str, bytes | None]
) -> None:
    validate = ResourceValidator(config)
    ids = {name: topic_id for topic_id, name in metadata.topics.items()}
    for (kind, name), values in sorted(metadata.configs.items()):
        if kind == ConfigResource.BROKER:
            _take_broker_config(taken, config, name, values)
        elif kind not in (ConfigResource.TOPIC, ConfigResource.GROUP, ConfigResource.CLIENT_METRICS):
            taken.leave_out(f"configuration of {name}: resource type {kind} is not known")
        elif kind == ConfigResource.TOPIC and (name not in topics or topics[name] not in (None, ids.get(name))):
            taken.leave_out(f"configuration of topic {name}: the topic is not in this directory")
        else:
            resource = ConfigResource(kind)
            word = resource.name.lower().replace("_", " ")

            def check_values(trial: Mapping[str, str], resource: ConfigResource = resource, name: str = name) -> None:
                validate(resource, name, trial)

            kept, refused = _acceptable(values, check_values)
            for each in refused:
                taken.leave_out(f"{word} {name}: {each}={values[each]}")
            _add_config(taken, f"configurations ({word})", resource, name, kept)


def _take_broker_config(taken: Taken, config: KafkaConfig, name: str, values: Mapping[str, str]) -> None:
    """The properties of all brokers ("") or of this one."""
    if name not in ("", str(config.node_id)):
        taken.leave_out(f"configuration of broker {name}: this is broker {config.node_id}")
        return

    def check_values(trial: Mapping[str, str]) -> None:
        if name:
            config.validate_dynamic({}, trial)
        else:
            config.validate_dynamic(trial, {})

    kept, refused = _acceptable(values, check_values)
    for each in refused:
        taken.leave_out(f"{_broker_words(name)}: {each}")
    if not name:
        kept = {**config.dynamic_default_minimum(), **kept}
    else:
        kept.pop(MIN_ISR, None)
    _add_config(taken, "configurations (broker)", ConfigResource.BROKER, name, kept)


def _broker_words(name: str) -> str:
    return f"broker {name}" if name else "all brokers"


def _add_config(taken: Taken, kind: str, resource: ConfigResource, name: str, values: Mapping[str, str]) -> None:
    if values:
        shown = _broker_words(name) if resource is ConfigResource.BROKER else name
        text = f"{shown} ({', '.join(sorted(values))})"
        taken.add(kind, text, keys.config_key(resource, name), keys.pack(values=dict(values)))


def _acceptable(
    values: Mapping[str, str], check_values: Callable[[Mapping[str, str]], None]
) -> tuple[dict[str, str], list[str]]:
    """The properties that kwire can have together, and the names of the others."""
    kept: dict[str, str] = dict(values)
    if not _objects(check_values, kept):
        return kept, []
    kept, refused = {}, []
    for name, text in sorted(values.items()):
        if _objects(check_values, {**kept, name: text}):
            refused.append(name)
        else:
            kept[name] = text
    return kept, refused


def _objects(check_values: Callable[[Mapping[str, str]], None], values: Mapping[str, str]) -> bool:
    try:
        check_values(values)
    except (KafkaError, ConfigError):
        return True
    return False


def _take_quotas(taken: Taken, metadata: KafkaMetadata) -> None:
    for entity, quotas in sorted(metadata.quotas.items(), key=lambda each: str(each[0])):
        shown = ", ".join(f"{kind} {'default' if name is None else name}" for kind, name in entity.names)
        try:
            check_quotas(entity.by_type(), quotas)
        except KafkaError as error:
            taken.leave_out(f"quotas of {shown}: {error.message}")
        else:
            taken.add("quotas", shown, quota_key(entity), pack_quotas(entity, quotas))


def _take_acls(taken: Taken, metadata: KafkaMetadata) -> None:
    for record in sorted(metadata.acls.values(), key=lambda each: (each.principal, each.id)):
        binding = _binding(record)
        taken.add("ACLs", binding.principal, acl_key(binding), pack_acl(binding))
    if metadata.acls:
        taken.values[keys.ACL_CHANGE] = keys.pack()


def _binding(record: AccessControlEntryRecord) -> AclBinding:
    """The entry of a record. `StartError`."""
    try:
        binding = AclBinding(
            ResourceType(record.resource_type),
            record.resource_name,
            PatternType(record.pattern_type),
            record.principal,
            record.host,
            AclOperation(record.operation),
            PermissionType(record.permission_type),
        )
        codes = (binding.resource_type, binding.pattern_type, binding.operation, binding.permission)
        if any(each.name in _NOT_IN_ENTRIES for each in codes):
            raise ValueError("an ACL has a code that only filters may have")
        check(binding)
    except (ValueError, KafkaError) as error:
        reason = error.message if isinstance(error, KafkaError) else str(error)
        raise StartError(
            f"kwire cannot take an ACL of {_printable(record.principal)} on {_printable(record.resource_name)}:"
            f" {_printable(str(reason))}; delete it with Apache Kafka, or give --without-security"
        ) from None
    return binding


def _take_users(taken: Taken, metadata: KafkaMetadata) -> None:
    for (code, name), record in sorted(metadata.users.items(), key=lambda each: (each[0][1], each[0][0])):
        try:
            check_name(name)
            mechanism = ScramMechanism(code)
        except (ValueError, KafkaError) as error:
            reason = error.message if isinstance(error, KafkaError) else "unknown mechanism"
            taken.leave_out(f"user {name}: {reason}")
            continue
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        taken.add("SCRAM users", name, keys.scram_key(mechanism, name), pack_credential(credential))


def _take_tokens(taken: Taken, metadata: KafkaMetadata) -> None:
    for record in sorted(metadata.tokens.values(), key=lambda each: each.token_id):
        try:
            if not _TOKEN_ID.fullmatch(record.token_id):
                raise ValueError("it is not an id of a token")
            token = DelegationToken(
                record.token_id,
                parse_principal(record.owner),
                parse_principal(record.requester),
                tuple(map(parse_principal, record.renewers)),
                record.issue_timestamp,
                record.max_timestamp,
                record.expiration_timestamp,
            )
        except ValueError as error:
            taken.leave_out(f"delegation token {record.token_id}: {error}")
        else:
            key = keys.delegation_token_key(token.id)
            taken.add("delegation tokens", f"{token.id} of {token.owner}", key, pack_token(token))


def _leave_out_security(taken: Taken, metadata: KafkaMetadata) -> None:
    counts = {
        "ACLs": len(metadata.acls),
        "SCRAM credentials": len(metadata.users),
        "delegation tokens": len(metadata.tokens),
    }
    taken.left_out += [f"{kind} ({count}): --without-security" for kind, count in counts.items() if count]
    taken.left_out += [f"{count} records of {record}" for record, count in sorted(metadata.unknown.items())]
