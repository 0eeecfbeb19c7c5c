"""``kwire acl list|add|remove``: access control entries, of a running cluster or one that is not running.

If a cluster is named (``-b``, ``-X``, the environment, a profile), requests go to a broker, of Apache Kafka as well.
Otherwise the entries are written to the metadata store that the configuration names, as with ``kwire start``: before
the first start, or while no broker runs.
Entries take effect with ``authorizer.class.name``.

    kwire acl add User:alice --operation read --topic orders --group billing --data-dir data
    kwire acl list --topic orders --json --bootstrap-server localhost:9092 --command-config admin.properties
    kwire acl remove User:alice --bootstrap-server localhost:9092 --command-config admin.properties
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.cli import output
from kwire.cli.connection.errors import UsageError
from kwire.cli.running import place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cli.connection.cluster import Cluster
    from kwire.cli.running.acls import RunningAcls
    from kwire.security.acls.bindings import AclBinding, AclFilter
    from kwire.security.acls.operations import AclOperation
    from kwire.server.access.offline_acls import OfflineAcls

RESOURCES: Final = ("topic", "group", "transactional-id", "delegation-token", "user")
CLUSTER_NAME: Final = "kafka-cluster"


class AclRow(NamedTuple):
    """An entry."""

    principal: str
    host: str
    permission: str
    operation: str
    resource: str
    pattern: str
    name: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire acl``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="allow, or with --deny forbid, operations on resources")
    add.add_argument("principal", metavar="PRINCIPAL", help="whom it is for: User:NAME, User:* for everybody")
    remove = actions.add_parser("remove", help="remove the entries that have everything that is named")
    listed = actions.add_parser("list", help="list the entries that have everything that is named")
    for each in (remove, listed):
        each.add_argument("principal", metavar="PRINCIPAL", nargs="?", help="only entries for this principal")
    for each in (add, remove, listed):
        each.add_argument("--operation", action="append", metavar="NAME", default=[], help=f"one of {_operations()}")
        for name in RESOURCES:
            each.add_argument(
                f"--{name}", action="append", metavar="NAME", default=[], help=f"a {name.replace('-', ' ')}, * for all"
            )
        each.add_argument("--cluster", action="store_true", help="the cluster")
        each.add_argument("--prefixed", action="store_true", help="the names are prefixes of names")
        each.add_argument("--host", metavar="ADDRESS", help="the client's address (default: every address)")
        each.add_argument("--deny", action="store_true", help="entries that forbid")
        place.add_arguments(each)
    remove.add_argument("--all", action="store_true", help="confirm that all entries are to be removed")
    for each in (add, remove, listed):
        output.add_arguments(each)
    listed.add_argument("--json", action="store_const", const="json", dest="output", help="short for -o json")


def run(arguments: argparse.Namespace) -> int:
    """Run the action and print the entries that it is about."""
    return place.run(_run, arguments)


async def _run(arguments: argparse.Namespace) -> int:
    from kwire.security.acls.bindings import AclFilter

    action = arguments.action
    try:
        bindings = list(_bindings(arguments)) if action == "add" else []
        filters = list(_filters(arguments))
    except ValueError as error:
        raise UsageError(str(error)) from None
    if action == "remove" and not arguments.all and filters == [AclFilter()]:
        raise UsageError("name the entries to remove, or give --all")
    async with place.opened(arguments, _in_cluster, _in_store) as acls:
        if action == "add":
            _report("added", await acls.add(bindings), arguments.output)
        elif action == "remove":
            _report("removed", await acls.remove(filters), arguments.output)
        else:
            output.show([AclRow(*_words(each)) for each in await acls.select(filters)], arguments.output)
    return 0


def _in_cluster(cluster: Cluster) -> RunningAcls:
    from kwire.cli.running.acls import RunningAcls

    return RunningAcls(cluster)


def _in_store(config: KafkaConfig, doors: Doors, create: bool) -> AbstractAsyncContextManager[OfflineAcls]:
    from kwire.server.access.offline_acls import offline_acls

    return offline_acls(config, doors, create=create)


def _operations() -> str:
    return (
        "all, read, write, create, delete, alter, describe, cluster-action, describe-configs, alter-configs,"
        " idempotent-write, create-tokens, describe-tokens, two-phase-commit"
    )


def _resources(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The types and names that the command line has."""
    for name in RESOURCES:
        for each in getattr(arguments, name.replace("-", "_")):
            yield name, each
    if arguments.cluster:
        yield "cluster", CLUSTER_NAME


def _bindings(arguments: argparse.Namespace) -> Iterator[AclBinding]:
    """The entries to add. ValueError."""
    from kwire.security.acls.bindings import WILDCARD, AclBinding, PatternType, PermissionType
    from kwire.security.acls.operations import ALL_OPERATIONS, AclOperation, ResourceType
    from kwire.security.principals import parse_principal

    resources = list(_resources(arguments))
    if not resources or not arguments.operation:
        raise ValueError("name at least one resource (--topic, --group, --cluster, ...) and one --operation")
    principal, host = str(parse_principal(arguments.principal)), _host(arguments.host) or WILDCARD
    permission = PermissionType.DENY if arguments.deny else PermissionType.ALLOW
    for kind, name in resources:
        resource_type = ResourceType[_code_name(kind)]
        prefixed = arguments.prefixed and resource_type is not ResourceType.CLUSTER
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        for word in arguments.operation:
            operation = _operation(word)
            if operation not in (AclOperation.ALL, *ALL_OPERATIONS[resource_type]):
                raise ValueError(f"there is no operation {word} on a {kind}")
            yield AclBinding(resource_type, name, pattern, principal, host, operation, permission)


def _filters(arguments: argparse.Namespace) -> Iterator[AclFilter]:
    """What selects the entries to list or remove. ValueError."""
    from kwire.security.acls.bindings import AclFilter, PatternType, PermissionType
    from kwire.security.acls.operations import AclOperation, ResourceType

    resources: Sequence[tuple[str, str | None]] = list(_resources(arguments)) or [("any", None)]
    for kind, name in resources:
        for operation in [_operation(word) for word in arguments.operation] or [AclOperation.ANY]:
            yield AclFilter(
                ResourceType[_code_name(kind)],
                name,
                PatternType.PREFIXED if arguments.prefixed else PatternType.ANY,
                arguments.principal,
                _host(arguments.host),
                operation,
                PermissionType.DENY if arguments.deny else PermissionType.ANY,
            )


def _operation(word: str) -> AclOperation:
    from kwire.security.acls.operations import AclOperation

    name = _code_name(word)
    if name not in AclOperation.__members__ or AclOperation[name] < AclOperation.ALL:
        raise ValueError(f"there is no operation {word!r}: {_operations()}")
    return AclOperation[name]


def _host(text: str | None) -> str | None:
    """An address as the authorizer compares it. ValueError."""
    from ipaddress import ip_address

    from kwire.net.addresses import client_host_text

    if text is None or text == "*":
        return text
    try:
        return client_host_text(str(ip_address(text))).removeprefix("/")
    except ValueError:
        raise ValueError(f"{text!r} is no address: clients are known by their IPv4 or IPv6 address") from None


def _code_name(word: str) -> str:
    return word.replace("-", "_").upper()


def _words(binding: AclBinding) -> tuple[str, ...]:
    """What is shown of an entry, in the order of `AclRow`."""
    return (
        binding.principal,
        binding.host,
        _word(binding.permission.name),
        _word(binding.operation.name),
        _word(binding.resource_type.name),
        _word(binding.pattern_type.name),
        binding.resource_name,
    )


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def _report(done: str, bindings: Sequence[AclBinding], output_format: str) -> None:
    rows = [AclRow(*_words(each)) for each in bindings]
    lines = (" ".join(f"{name}={word}" for name, word in row._asdict().items()) for row in rows)
    output.show_done(rows, output_format, (f"kwire {done} {line}" for line in lines))
