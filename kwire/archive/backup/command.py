"""``kwire backup create|list|restore``: backups of a data directory, in object storage or a folder.

    kwire backup create --data-dir /var/lib/kwire --to s3://backups/kwire
    kwire backup list s3://backups/kwire
    kwire backup restore s3://backups/kwire --data-dir /var/lib/kwire-again

``kwire start --from s3://backups/kwire`` restores the newest backup into an empty data directory, and starts there.
"""

from __future__ import annotations

import argparse
from typing import Final, NamedTuple

from kwire.cli import fail, output
from kwire.cli.actions import positive

_KEEP: Final = 7
_ACTIONS: Final = {
    "create": "back up a data directory, which a broker may be using",
    "list": "list the backups in a place",
    "restore": "make a data directory of a backup, for a broker to start on",
}


class BackupRow(NamedTuple):
    """A backup. ``created`` is the time at which it was written, in UTC; ``bytes``: of all files."""

    number: int
    created: str
    kwire: str
    cluster_id: str
    topics: int
    partitions: int
    bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire backup``."""
    group = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = {
        name: group.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        for name, text in _ACTIONS.items()
    }
    place = "s3://BUCKET/NAME, gs://..., az://..., or a folder"
    create = made["create"]
    create.add_argument("--data-dir", metavar="DIR", required=True, help="the data directory of a broker (log.dirs)")
    create.add_argument("--to", metavar="PLACE", required=True, help=f"where backups are: {place}")
    text = f"how many backups stay, older ones are deleted; 0: all (default: {_KEEP})"
    create.add_argument("--keep", type=_count, default=_KEEP, metavar="N", help=text)
    text = "leave out the segments that are written to, also what is committed in them"
    create.add_argument("--closed-only", action="store_true", help=text)
    made["list"].add_argument("place", metavar="PLACE", help=place)
    restore = made["restore"]
    restore.add_argument("place", metavar="PLACE", help=place)
    restore.add_argument("--data-dir", metavar="DIR", required=True, help="an empty directory, made if need be")
    restore.add_argument("--number", type=positive, metavar="N", help="which backup (default: the newest)")
    for each in made.values():
        output.add_arguments(each)


def run(arguments: argparse.Namespace) -> int:
    """Run the action; the exit status."""
    from kwire.archive.errors import ArchiveError

    actions = {"create": _create, "list": _list, "restore": _restore}
    try:
        actions[arguments.action](arguments)
    except ArchiveError as error:
        return fail(error)
    return 0


def restore_before_start(url: str, path: str) -> str | None:
    """Make a data directory of the newest backup, unless a broker's data is in it; what went wrong, in one line."""
    from kwire.archive.backup.restoring import is_data_directory, restore
    from kwire.archive.backup.stores import Place
    from kwire.archive.errors import ArchiveError
    from kwire.base.logging import get_logger

    log = get_logger("kwire.archive")
    if is_data_directory(path):
        log.info("not restored: the data directory is in use already", directory=path)
        return None
    try:
        done = restore(Place(url), path, None)
    except ArchiveError as error:
        return str(error)
    log.info("restored", place=url, number=done.number, topics=done.topics, bytes=done.bytes, directory=path)
    return None


def _create(arguments: argparse.Namespace) -> None:
    from kwire.archive.backup.creating import create
    from kwire.archive.backup.stores import Place
    from kwire.cli.topics.rows import counted

    place = Place(arguments.to)
    done = create(arguments.data_dir, place, keep=arguments.keep, closed_only=arguments.closed_only)
    if arguments.output == "table":
        print(
            f"backup {done.number}: {counted(done.topics, 'topic')}, {counted(done.partitions, 'partition')},"
            f" {counted(done.files, 'file')}, {done.copied_files} of them copied"
        )
    else:
        output.show_one(done, arguments.output)


def _list(arguments: argparse.Namespace) -> None:
    from datetime import UTC, datetime

    from kwire.archive.backup.creating import backups, read_manifest
    from kwire.archive.backup.stores import Place

    place, rows = Place(arguments.place), []
    for number in backups(place):
        found = read_manifest(place, number)
        created = datetime.fromtimestamp(found.created_ms / 1000, UTC).isoformat(timespec="seconds")
        topics = len({each.topic for each in found.partitions})
        size = sum(each.size for each in found.files())
        rows.append(BackupRow(number, created, found.kwire, found.cluster_id, topics, len(found.partitions), size))
    output.show(rows, arguments.output)


def _restore(arguments: argparse.Namespace) -> None:
    from kwire.archive.backup.restoring import restore
    from kwire.archive.backup.stores import Place
    from kwire.cli.topics.rows import counted

    done = restore(Place(arguments.place), arguments.data_dir, arguments.number)
    if arguments.output == "table":
        what = f"{counted(done.topics, 'topic')}, {counted(done.partitions, 'partition')}"
        print(f"backup {done.number} restored to {done.data_dir}: {what}")
    else:
        output.show_one(done, arguments.output)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)
