"""``kwire config list|get|set|unset``: configurations of topics, brokers, groups and clients' metrics.

kwire config get topic/orders
kwire config set topic/orders retention.ms=3600000 cleanup.policy=compact
kwire config set broker/* log.retention.ms=86400000
kwire config unset topic/orders retention.ms
"""

from __future__ import annotations

import argparse
import re
from typing import Final

from kwire.cli import actions

ACTIONS: Final = {
    "list": ("list what has configurations of its own", "actions.list_resources"),
    "get": ("show configurations", "actions.get"),
    "set": ("set configurations: NAME=VALUE, or NAME+=VALUE and NAME-=VALUE for lists", "actions.set_values"),
    "unset": ("take configurations back to their defaults", "actions.unset"),
}
TYPES: Final = ("topic", "broker", "broker-logger", "client-metrics", "group")
SET, DELETE, APPEND, SUBTRACT = range(4)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire config``."""
    parsers = actions.add_parsers(parser, ACTIONS)
    listed, get, set_, unset = parsers.values()
    listed.add_argument("--type", choices=TYPES, metavar="TYPE", help=", ".join(TYPES))
    text = "topic/NAME, broker/ID, broker/* (all brokers), group/ID, client-metrics/NAME or broker-logger/ID"
    for each in (get, set_, unset):
        each.add_argument("resource", metavar="TYPE/NAME", type=_resource, help=text)
    get.add_argument("names", metavar="NAME", nargs="*", help="only these configurations")
    get.add_argument("--all", action="store_true", help="with defaults, and what files of properties set")
    set_.add_argument("changes", metavar="NAME=VALUE", nargs="+", type=_change)
    unset.add_argument("names", metavar="NAME", nargs="+")
    for each in (set_, unset):
        each.add_argument("--dry-run", action="store_true", help="only check whether it could be changed")


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    return actions.run_action(arguments, ACTIONS, "kwire.cli.configs")


def _resource(text: str) -> tuple[str, str]:
    kind, slash, name = text.partition("/")
    if kind not in TYPES or not slash or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not TYPE/NAME such as topic/orders; types: {', '.join(TYPES)}")
    return kind, "" if (kind, name) == ("broker", "*") else name


def _change(text: str) -> tuple[str, int, str]:
    found = re.fullmatch(r"([^=]*?)([+-]?)=(.*)", text, re.DOTALL)
    if found is None or not found[1].strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return found[1].strip(), {"": SET, "+": APPEND, "-": SUBTRACT}[found[2]], found[3]
