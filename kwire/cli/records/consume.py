"""``kwire consume TOPIC``: read records.

kwire consume orders --from earliest --until-end -f '%k %v\\n'
kwire consume orders --from "10 minutes ago" -o jsonl
kwire consume orders --filter-json '$.amount>100' --follow
kwire consume orders --group billing --max-messages 10
kwire consume orders --registry http://localhost:8081 -f '%k %v\\n'
"""

from __future__ import annotations

import argparse
from typing import Final

from kwire.base.extras import missing
from kwire.cli import connection, fail

_KINDS: Final = ("table", "json", "jsonl", "yaml")
_FILTERS: Final = ("key", "value", "header", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire consume``."""
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="the topic; several are read together")
    parser.set_defaults(words_as="topics")
    parser.add_argument(
        "-p",
        "--partition",
        type=_partition,
        action="append",
        default=[],
        metavar="N",
        help="only this one; may be given more than once",
    )
    _add_range(parser)
    _add_form(parser)
    _add_choice(parser)
    _add_group(parser)
    connection.add_arguments(parser)


def _add_range(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="start",
        metavar="POSITION",
        help="earliest (default), latest, an offset, -N (N before the end), a time, '10 minutes ago'; with --group: "
        "where nothing is committed",
    )
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--until-end", action="store_true", help="stop at what is the end of each partition now")
    ends.add_argument("--follow", action="store_true", help="go on after the end, waiting for new records (default)")
    parser.add_argument(
        "-n", "--max-messages", "--num-records", type=_count, metavar="N", dest="count_max", help="stop after N records"
    )


def _add_form(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "-f",
        "--format",
        metavar="TEXT",
        help="%%t topic, %%p partition, %%o offset, %%k key, %%v value, %%h headers, %%T timestamp, %%K and %%V "
        "lengths; {hex}, {base64}, {json}, %%T{iso}; \\n, \\t (default: %%v\\n)",
    )
    parser.add_argument(
        "--registry", metavar="URL", help="decode keys and values to JSON by the schemas of this registry"
    )
    forms.add_argument("-o", "--output", choices=_KINDS, metavar="FORMAT", help="table, json, jsonl or yaml instead")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    helps = {
        "key": ("REGEX", "only records whose key has a match"),
        "value": ("REGEX", "only records whose value has a match"),
        "header": ("NAME[=REGEX]", "only records with this header, and a match in its value"),
        "json": (
            "PATH[OP TEXT]",
            "only records whose value is JSON with this: $.user.id, $.items[*].price>10, $.name=Ada, $.name~^A",
        ),
    }
    for name, (metavar, text) in helps.items():
        parser.add_argument(f"--filter-{name}", metavar=metavar, action="append", default=[], help=text)
    parser.add_argument(
        "--isolation",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="whether records of open and aborted transactions are read (default: read_uncommitted)",
    )


def _add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-g", "--group", metavar="GROUP", help="as a member of this group, which commits what is written"
    )


def _partition(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a partition")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Read and write records until the end that the options name."""
    if arguments.registry and (reason := missing("registry")):
        return fail(reason)
    from kwire.cli.connection.running import run as run_on_cluster
    from kwire.cli.records.consuming import consume

    return run_on_cluster(arguments, consume)
