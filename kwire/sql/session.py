"""`Session`: one DuckDB database in which topics are views. A statement's topics become views before it runs."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.sql.errors import SqlError
from kwire.sql.statements import SCHEMA, Statement, parse, reason
from kwire.sql.topics.columns import SHOWN
from kwire.sql.topics.dataset import Scan, TopicDataset
from kwire.sql.topics.forms import Forms
from kwire.sql.topics.source import Source
from kwire.sql.topics.spans import Snapshot, Spans

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_MISSING_TABLE: Final = re.compile(r"Catalog Error: Table with name (.+?) does not exist!")


class Limits(NamedTuple):
    """What a database may use. ``memory``: as DuckDB writes sizes (``2GB``); ``temporary``: the directory for what does
    not fit; ``files``: whether statements may read and write files and load extensions."""

    memory: str
    temporary: str
    files: bool = False
    threads: int | None = None


class Session:
    """A database with views of the topics of a source. ``as_of``: the offsets of topics, in place of what there is.

    For one thread, except `interrupt`."""

    def __init__(self, source: Source, limits: Limits, forms: Forms, as_of: Snapshot | None = None) -> None:
        self.source = source
        self.scans: list[Scan] = []
        self._forms = forms
        self._as_of = as_of
        self._snapshot: Snapshot = {}
        self._views: dict[str, str] = {}  # by the name in lower case, the topic
        self._topics: list[str] | None = None
        self.connection = _database(limits)

    @property
    def snapshot(self) -> Snapshot:
        """The offsets of the topics that statements have named since the last `renew`."""
        return self._snapshot

    def renew(self) -> None:
        """Let topics be looked up anew: the statements that follow see what has been written meanwhile."""
        self._snapshot, self._views, self._topics = {}, {}, None

    def topics(self) -> list[str]:
        """All topics. `ReadError`, `CommandError`."""
        if self._topics is None:
            self._topics = self.source.topics()
        return self._topics

    def statements(self, text: str) -> list[Statement]:
        """The statements of a text. `SqlError`."""
        return parse(self.connection, text)

    def run(self, statement: Statement) -> DuckDBPyRelation | None:
        """The rows of a statement, which are read when they are taken; None for a statement without rows, which has
        run then. `SqlError`, `ReadError`, `CommandError`."""
        import duckdb

        self.scans = []
        if not statement.lists:
            self.open_topics(statement)
        try:
            relation = self.connection.sql(self._listing() if statement.lists else statement.text)
        except duckdb.Error as error:
            raise self.failure(error) from None
        return relation if statement.has_rows else None

    def _listing(self) -> str:
        """A statement with the names of all topics, which are no views before they are named, and of the user's own
        tables and views. `ReadError`, `CommandError`."""
        topics = ", ".join("'" + each.replace("'", "''") + "'" for each in self.topics())
        return (
            f"select unnest([{topics}]::varchar[]) as name union select table_name from duckdb_tables() "
            f"where not internal union select view_name from duckdb_views() "
            f"where not internal and schema_name <> '{SCHEMA}' and database_name <> 'temp' order by name"
        )

    def failure(self, error: Exception) -> Exception:
        """Why a statement failed: what the reading of a topic says, rather than how DuckDB says that it failed."""
        failures = (each.failure for each in self.scans if isinstance(each.failure, Exception))
        return next(failures, self._in_words(error))

    def _in_words(self, error: Exception) -> SqlError:
        words = reason(error)
        missing = _MISSING_TABLE.match(words)
        return SqlError(f"there is no topic or table {missing[1]} at {self.source.where}" if missing else words)

    def zone(self) -> str:
        """The time zone of the session, by its name."""
        ((found,),) = self.connection.execute("select current_setting('TimeZone')").fetchall()
        return str(found)

    def interrupt(self) -> None:
        """End the statement that runs, from any thread."""
        self.connection.interrupt()

    def close(self) -> None:
        """Forget everything, and remove what lies in the temporary directory."""
        self.connection.close()

    def open_topics(self, statement: Statement) -> None:
        """Make views of the topics that a statement names. `SqlError` for one that there is not."""
        own, system = self._tables(internal=False), self._tables(internal=True)
        for name in sorted(statement.tables | statement.topics):
            if name.lower() in own and name not in statement.topics:
                continue
            topic = self._topic(name, exact=statement.exact and name.lower() not in system)
            if topic is not None:
                self._open(topic)

    def _tables(self, *, internal: bool) -> set[str]:
        """The user's tables and views in lower case, or (``internal``) those that DuckDB has by itself."""
        rows = self.connection.execute(
            "select table_name from duckdb_tables() where internal = $1 and schema_name <> $2 "
            "union all select view_name from duckdb_views() where internal = $1 and schema_name <> $2",
            [internal, SCHEMA],
        ).fetchall()
        return {str(name).lower() for (name,) in rows}

    def _topic(self, name: str, *, exact: bool) -> str | None:
        """The topic with this name; as in SQL, upper and lower case are one if that is clear."""
        topics = self.topics()
        if name in topics:
            return name
        alike = [each for each in topics if each.lower() == name.lower()]
        if len(alike) == 1:
            return alike[0]
        if not exact:
            return None
        if alike:
            raise SqlError(f"topic {name} may be {' or '.join(alike)}: write it as it is, in double quotes")
        near = difflib.get_close_matches(name, topics, 1)
        hint = f': did you mean "{near[0]}"?' if near else ""
        raise SqlError(f"there is no topic {name} at {self.source.where}{hint}")

    def _open(self, topic: str) -> None:
        """Make the view of a topic, unless there is one."""
        known = self._views.get(topic.lower())
        if known == topic:
            return
        if known is not None:
            raise SqlError(
                f"topics {known} and {topic} differ only in upper and lower case: SQL cannot tell them apart"
            )
        spans = self._spans(topic)
        dataset = TopicDataset(topic, spans, self.source, self._forms.of(self.source, topic, spans), self._noted)
        source = f"topic {len(self._views)}"  # a name that no topic has
        columns = ", ".join(quoted(each) for each in SHOWN)
        self.connection.register(source, dataset)
        self.connection.execute(
            f"create or replace view {SCHEMA}.{quoted(topic)} as select {columns} from temp.{quoted(source)}"
        )
        self._views[topic.lower()] = topic
        self._snapshot[topic] = spans

    def _noted(self, scan: Scan) -> None:
        self.scans.append(scan)

    def _spans(self, topic: str) -> Spans:
        """The offsets of the query. `SqlError` if those that were asked for are not there."""
        there = self.source.spans(topic)
        if self._as_of is None:
            return there
        if topic not in self._as_of:
            raise SqlError(f"--as-of does not name the topic {topic}")
        wanted = self._as_of[topic]
        for number, span in wanted.items():
            if number not in there:
                raise SqlError(f"--as-of: {topic} has no partition {number}")
            if span.size and span.start < there[number].start:
                raise SqlError(
                    f"--as-of: {topic}-{number} begins at offset {there[number].start} now; {span.start} is gone"
                )
            if span.end > there[number].end:
                raise SqlError(f"--as-of: {topic}-{number} ends before offset {there[number].end}, not {span.end}")
        return wanted


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _database(limits: Limits) -> DuckDBPyConnection:
    """A database in memory. `SqlError` for limits that DuckDB does not take."""
    import duckdb

    config: dict[str, Any] = {
        "memory_limit": limits.memory,
        "temp_directory": limits.temporary,
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": str(limits.files).lower(),
        "autoload_known_extensions": str(limits.files).lower(),
    }
    if limits.threads is not None:
        config["threads"] = str(limits.threads)
    try:
        connection = duckdb.connect(config=config)
        if not limits.files:
            connection.execute("set enable_external_access = false")  # for good, and after the temp_directory
        connection.execute(f"create schema {SCHEMA}")
        connection.execute(f"set search_path = 'main,{SCHEMA}'")
    except duckdb.Error as error:
        raise SqlError(reason(error)) from None
    return connection
