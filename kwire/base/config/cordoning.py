"""`cordoned.log.dirs` (KIP-1066): log directories that get no new replicas. Pure but for the working directory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from os import path
from typing import Any, Final

from kwire.base.config.errors import ConfigError

ALL_DIRECTORIES: Final = "*"
"""The entry that stands for all of a broker's log directories."""


def names_of_directories(log_dirs: Sequence[str]) -> list[tuple[str, str]]:
    """By which names each entry of `log.dirs` may be cordoned: as it is written there, and by its absolute path."""
    return [(each, path.abspath(each)) for each in log_dirs]


def are_cordoned(directories: Iterable[Sequence[str]], cordoned: Collection[str]) -> bool:
    """Whether all of these directories, each with its names, are among the entries of `cordoned.log.dirs`."""
    return ALL_DIRECTORIES in cordoned or all(any(name in cordoned for name in names) for names in directories)


def check_cordoned(values: Mapping[str, Any]) -> None:
    """Raise `ConfigError` unless the cordoned directories are among those of the same broker. Values of other brokers
    cannot be checked so."""
    allowed = {ALL_DIRECTORIES, *chain.from_iterable(names_of_directories(values["log.dirs"] or values["log.dir"]))}
    for each in values["cordoned.log.dirs"]:
        if each not in allowed:
            raise ConfigError(
                "cordoned.log.dirs",
                None,
                f"Invalid entry in cordoned.log.dirs: {each}. All cordoned log dirs must be entries of log.dirs or"
                " log.dir.",
            )
