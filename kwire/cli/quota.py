"""``kwire quota list|add|remove``: quotas of clients, of a running cluster or one that is not running.

If a cluster is named (``-b``, ``-X``, the environment, a profile), requests go to a broker, of Apache Kafka as well.
Otherwise the quotas are written to the metadata store that the configuration names, as with ``kwire start``: before the
first start, or while no broker runs.

    kwire quota add --user alice producer_byte_rate=1048576 request_percentage=50 --data-dir data
    kwire quota add --default-user --client-id loader consumer_byte_rate=1e7 --data-dir data
    kwire quota list --user alice --json --bootstrap-server localhost:9092 --command-config admin.properties
    kwire quota remove --user alice request_percentage --bootstrap-server localhost:9092
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.cli import output, print_table
from kwire.cli.connection.errors import UsageError
from kwire.cli.running import place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cli.connection.cluster import Cluster
    from kwire.cli.running.quotas import RunningQuotas
    from kwire.quotas.entities import QuotaEntity, Quotas
    from kwire.quotas.rules import Changes
    from kwire.server.access.offline_quotas import OfflineQuotas

TYPES: Final = {"user": "a user", "client-id": "a client id", "ip": "an address"}
KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
DEFAULT: Final = "(default)"
NONE: Final = "-"


class QuotaRow(NamedTuple):
    """A limit. A user, client id or address that has no limit of its own is ``(default)``."""

    user: str | None
    client_id: str | None
    ip: str | None
    quota: str
    limit: float


HEADINGS: Final = ("USER", "CLIENT-ID", "IP", "QUOTA", "LIMIT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire quota``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    keys = ", ".join(KEYS)
    add = actions.add_parser("add", help="give a user, a client id, both or an address limits, or change them")
    add.add_argument("limits", metavar="QUOTA=LIMIT", nargs="+", type=_limit, help=f"a new limit of one of {keys}")
    remove = actions.add_parser("remove", help="remove limits")
    remove.add_argument("quotas", metavar="QUOTA", nargs="*", help="only this quota (default: all of them)")
    listed = actions.add_parser("list", help="list the limits of those that have all names that are given")
    for each in (add, remove, listed):
        for name, what in TYPES.items():
            one = each.add_mutually_exclusive_group()
            one.add_argument(f"--{name}", metavar="NAME", help=f"of {what}")
            text = f"of {what} without a limit of its own"
            one.add_argument(f"--default-{name}", action="store_true", help=text)
        place.add_arguments(each)
        output.add_arguments(each)
    listed.add_argument("--json", action="store_true", help="print a JSON array by user, client id and address")


def _limit(text: str) -> tuple[str, float]:
    from math import isfinite

    name, _, value = text.partition("=")
    try:
        limit = float(value)
    except ValueError:
        limit = float("nan")
    if not isfinite(limit):
        raise argparse.ArgumentTypeError(f"{text!r} is not QUOTA=LIMIT, such as {KEYS[0]}=1048576")
    return name, limit


def run(arguments: argparse.Namespace) -> int:
    """Run the action and print the limits that it is about."""
    return place.run(_run, arguments)


async def _run(arguments: argparse.Namespace) -> int:
    names = dict(_names(arguments))
    if arguments.action == "list":
        async with place.opened(arguments, _in_cluster, _in_store) as quotas:
            _print(await quotas.select(names), arguments)
        return 0
    if not names:
        raise UsageError("say whose quota it is: --user, --client-id, --ip, or one of them with --default-")
    if arguments.action == "add":
        await _alter(arguments, "added", names, dict(arguments.limits))
    else:
        await _alter(arguments, "removed", names, dict.fromkeys(_known(arguments.quotas) or KEYS))
    return 0


async def _alter(arguments: argparse.Namespace, done: str, names: Mapping[str, str | None], changes: Changes) -> None:
    """Set or remove limits, and print them."""
    from kwire.quotas.entities import QuotaEntity

    entity = QuotaEntity.of(names)
    async with place.opened(arguments, _in_cluster, _in_store) as quotas:
        before = (await quotas.select(names)).get(entity, {})
        await quotas.alter(entity, changes)
    whose = " ".join(f"{kind}={_shown(name)}" for kind, name in names.items())
    limits = {key: before.get(key) if limit is None else limit for key, limit in changes.items()}
    changed = {key: limit for key, limit in limits.items() if limit is not None}
    lines = (f"kwire {done} {whose} {key}={_number(limit)}" for key, limit in changed.items())
    output.show_done(list(quota_rows({entity: changed})), arguments.output, lines)


def _in_cluster(cluster: Cluster) -> RunningQuotas:
    from kwire.cli.running.quotas import RunningQuotas

    return RunningQuotas(cluster)


def _in_store(config: KafkaConfig, doors: Doors, create: bool) -> AbstractAsyncContextManager[OfflineQuotas]:
    from kwire.server.access.offline_quotas import offline_quotas

    return offline_quotas(config, doors, create=create)


def _names(arguments: argparse.Namespace) -> Iterator[tuple[str, str | None]]:
    """The types and names that the command line has; None is the default."""
    for kind in TYPES:
        attribute = kind.replace("-", "_")
        name = getattr(arguments, attribute)
        if name is not None or getattr(arguments, f"default_{attribute}"):
            yield kind, name


def _known(quotas: Sequence[str]) -> Sequence[str]:
    """The same quotas. `UsageError`."""
    for each in quotas:
        if each not in KEYS:
            raise UsageError(f"there is no quota {each!r}: {', '.join(KEYS)}")
    return quotas


def _print(found: Mapping[QuotaEntity, Quotas], arguments: argparse.Namespace) -> None:
    if arguments.json:
        array = [{**entity.by_type(), "quotas": dict(sorted(quotas.items()))} for entity, quotas in found.items()]
        print(json.dumps(array, indent=2, ensure_ascii=False))
        return
    if arguments.output == "table":
        print_table(HEADINGS, [[word or NONE for word in (*row[:-1], _number(row.limit))] for row in quota_rows(found)])
        return
    output.show(list(quota_rows(found)), arguments.output)


def quota_rows(found: Mapping[QuotaEntity, Quotas]) -> Iterator[QuotaRow]:
    """A row for each limit, by entity."""
    for entity, quotas in found.items():
        names = entity.by_type()
        user, client_id, address = (_shown(names[kind]) if kind in names else None for kind in TYPES)
        for key in sorted(quotas):
            yield QuotaRow(user, client_id, address, key, quotas[key])


def _shown(name: str | None) -> str:
    return DEFAULT if name is None else name


def _number(limit: float) -> str:
    """Without a fraction if it has none."""
    return f"{limit:.0f}" if limit.is_integer() and limit < 1e16 else str(limit)
