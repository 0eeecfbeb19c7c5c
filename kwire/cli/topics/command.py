"""``kwire topic list|create|describe|alter|delete|trim``: topics of a running cluster.

kwire topic create orders --partitions 3 --config retention.ms=3600000
kwire topic list -o json
kwire topic alter orders --partitions 6 --delete-config retention.ms
kwire topic trim orders --before "7 days ago"
kwire topic delete orders
"""

from __future__ import annotations

import argparse
from typing import Final

from kwire.cli import actions

ACTIONS: Final = {
    "list": ("list topics", "listing.list_topics"),
    "create": ("create topics", "changes.create_topics"),
    "describe": ("show partitions, replicas and configurations of topics", "listing.describe_topics"),
    "alter": ("add partitions, change configurations", "changes.alter_topics"),
    "delete": ("delete topics and their records", "changes.delete_topics"),
    "trim": ("delete the oldest records of a topic", "trimming.trim_topic"),
}
_BEFORE: Final = "latest, an offset, -N (N before the end), a time (2026-11-23T10:00, @MILLISECONDS), '10 minutes ago'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire topic``."""
    parsers = actions.add_parsers(parser, ACTIONS)
    listed, create, describe, alter, delete, trim = parsers.values()
    listed.add_argument("--internal", action="store_true", help="with Kafka's own topics, such as __consumer_offsets")
    create.add_argument("names", metavar="NAME", nargs="+", help="the new topic; several are created alike")
    default = "(default: the broker's)"
    create.add_argument("-p", "--partitions", type=actions.positive, default=-1, metavar="N", help=default)
    create.add_argument("-r", "--replication-factor", type=actions.positive, default=-1, metavar="N", help=default)
    create.add_argument("--if-not-exists", action="store_true", help="a topic that exists already is no failure")
    describe.add_argument("names", metavar="NAME", nargs="*", help="topics (default: all but Kafka's own)")
    describe.add_argument("--under-replicated", action="store_true", help="only partitions with replicas not in sync")
    describe.add_argument("--offline", action="store_true", help="only partitions without a leader")
    alter.add_argument("names", metavar="NAME", nargs="+", help="the topic; several are altered alike")
    alter.add_argument("-p", "--partitions", type=actions.positive, metavar="N", help="how many it shall have")
    alter.add_argument(
        "--delete-config", action="append", default=[], metavar="NAME", help="a configuration to take back"
    )
    for each in (create, alter):
        each.add_argument(
            "-c",
            "--config",
            type=actions.assignment,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a configuration; may be given more than once",
        )
    delete.add_argument("names", metavar="NAME", nargs="+", help="the topic")
    delete.add_argument("--if-exists", action="store_true", help="a topic that does not exist is no failure")
    trim.add_argument("topic", metavar="NAME", type=actions.partitions, help="NAME or NAME:0,1,2")
    trim.add_argument("--before", required=True, type=actions.position, metavar="POSITION", help=_BEFORE)
    for each in (create, alter, trim):
        each.add_argument("--dry-run", action="store_true", help="change nothing; only show or check it")


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    return actions.run_action(arguments, ACTIONS, "kwire.cli.topics")
