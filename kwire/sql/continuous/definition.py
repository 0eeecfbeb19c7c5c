"""`Definition`: what a continuous query is, kept beside its checkpoint: a name means one query for good."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kwire.sql.errors import SqlError, UsageError
from kwire.sql.topics.columns import Kind

FORMATS: Final = ("parquet", "delta")
_FILE: Final = "kwire.json"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")


class Definition(NamedTuple):
    """``target``: a topic, or a folder with a table if ``form`` names a format. ``kinds``: of the topics' keys and
    values, by samples when the query was new."""

    query: str
    target: str
    form: str | None
    kinds: Mapping[str, tuple[Kind, Kind]]

    def difference(self, other: Definition) -> str | None:
        """What another one has otherwise, in words; types are kept, whatever samples say now."""
        if self.query != other.query:
            return "another query"
        if (self.target, self.form) != (other.target, other.form):
            return f"the target {other.form or 'topic'} {other.target}"
        return None


def checked_name(name: str) -> str:
    """A name that can be one of a folder and of a sink. `UsageError`."""
    if not _NAME.match(name):
        raise UsageError(f"--name {name}: letters, digits, dots, dashes and underscores, up to 200")
    return name


def folder_of(name: str, checkpoint: str | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Where the query called ``name`` keeps what it needs after a restart."""
    if checkpoint is not None:
        return Path(checkpoint).absolute()
    state = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME", ""), ".local", "state")
    return Path(state) / "kwire" / "sql" / name


def kept(folder: Path) -> Definition | None:
    """What the folder belongs to; None if it is new. `SqlError` if that cannot be read."""
    try:
        found: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        kinds = {topic: (key, value) for topic, (key, value) in found["kinds"].items()}
        return Definition(found["query"], found["target"], found["form"], kinds)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SqlError(f"{folder / _FILE}: {getattr(error, 'strerror', None) or 'it is damaged'}") from None


def keep(folder: Path, definition: Definition) -> None:
    """Write it, wholly or not at all. OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{_FILE}.{os.getpid()}.tmp"
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(definition._asdict(), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, folder / _FILE)


def forget_new(folder: Path) -> None:
    """Let go of a name whose query has never read anything: it could not be started."""
    if not any((folder / "checkpoint" / "offsets").glob("[0-9]*")):
        (folder / _FILE).unlink(missing_ok=True)
