"""Ends of a pipeline, as a command line names them.

``orders``: a topic; ``orders@HOST:PORT``: of another cluster; ``orders@NAME``: of the cluster of a profile;
``orders@/DIR``: straight from a data directory; ``/PATH``, ``parquet:PATH`` or ``delta:PATH``: a table.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kwire.audit.errors import AuditError
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.options import settings

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._*-]{1,249}")
_HOME: Final = ("HOME", "XDG_CONFIG_HOME")


class TopicEnd(NamedTuple):
    """A topic of a cluster; ``text``: as it was named. A name with ``*`` stands for several."""

    text: str
    topic: str
    bootstrap: str
    properties: Mapping[str, str]
    timeout_s: float

    def __repr__(self) -> str:
        """Without the properties, which may have passwords."""
        return f"TopicEnd({self.text!r}, {self.bootstrap!r})"


class DirectoryEnd(NamedTuple):
    """A topic in a data directory, read without a broker."""

    text: str
    topic: str
    path: str


class TableEnd(NamedTuple):
    """A table; ``kind``: parquet or delta."""

    text: str
    path: str
    kind: str


End = TopicEnd | DirectoryEnd | TableEnd


def parse_end(text: str, arguments: argparse.Namespace, *, is_copy: bool) -> End:
    """An end by its name. `AuditError` for one that means nothing."""
    for kind in ("parquet", "delta"):
        if text.startswith(f"{kind}:"):
            return TableEnd(text, text.removeprefix(f"{kind}:"), kind)
    topic, at, where = text.partition("@")
    if "/" in topic or topic.endswith(".parquet"):
        return TableEnd(text, text, "delta" if os.path.isdir(os.path.join(text, "_delta_log")) else "parquet")
    if not _TOPIC.fullmatch(topic) or topic in (".", "..") or (at and not where):
        raise AuditError(
            f"{text!r} is no end: TOPIC, TOPIC@HOST:PORT, TOPIC@PROFILE, TOPIC@/DIRECTORY or a table's /PATH"
        )
    if "/" in where or os.path.isdir(where):
        return DirectoryEnd(text, topic, where)
    return _topic(text, topic, where, arguments, is_copy=is_copy)


def _topic(text: str, topic: str, where: str, arguments: argparse.Namespace, *, is_copy: bool) -> TopicEnd:
    changed = dict(vars(arguments))
    environment: Mapping[str, str] = os.environ
    if ":" in where:
        changed["bootstrap_server"] = where
    elif where:  # the profile's own address and logins, not those of the environment
        changed |= {"bootstrap_server": None, "profile": where}
        environment = {name: os.environ[name] for name in _HOME if name in os.environ}
    if where and is_copy and arguments.copy_command_config is not None:
        changed |= {"command_config": arguments.copy_command_config, "client_properties": []}
    try:
        found = settings(argparse.Namespace(**changed), environment)
    except CommandError as error:
        raise AuditError(str(error)) from None
    return TopicEnd(text, topic, found.bootstrap, found.properties, found.timeout_s)
