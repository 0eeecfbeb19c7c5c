"""`Rows`: the rows of a query, made in a thread of their own, so that the main thread stays free for Ctrl-C and shows
progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kwire.sql.results.texts import Column
from kwire.sql.session import Session
from kwire.sql.statements import Statement

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

BATCH_ROWS: Final = 10_000
_LOOK_S: Final = 0.1


class Rows:
    """Runs statements of a session. ``columns`` and ``zone`` are those of the statement that was begun. ``tick`` is
    called ten times a second while rows are waited for. A context manager: leaving it ends what runs."""

    def __init__(self, session: Session, tick: Callable[[], None]) -> None:
        self.columns: list[Column] = []
        self.zone = "UTC"
        self._session = session
        self._tick = tick
        self._thread = ThreadPoolExecutor(1, "kwire-sql-query")
        self._reader: Any = None

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._thread.shutdown()

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return self._reader.schema

    def start(self, statement: Statement) -> bool:
        """Begin a statement; whether it has rows. `SqlError`, `ReadError`, `CommandError`."""
        return self._done(lambda: self._started(statement))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the statement that was begun. Closing the iterator ends it."""
        try:
            while (batch := self._done(self._following)) is not None:
                if batch.num_rows:
                    yield batch
        finally:
            self.close()

    def close(self) -> None:
        """End the statement that runs; it reads nothing more."""
        reader, self._reader = self._reader, None
        if reader is not None:
            self._session.interrupt()
            self._thread.submit(reader.close).result()

    def _started(self, statement: Statement) -> bool:
        relation = self._session.run(statement)
        if relation is None:
            return False
        self.zone = self._session.zone()
        names, kinds = relation.columns, relation.types
        self.columns = [Column(name, str(kind)) for name, kind in zip(names, kinds, strict=True)]
        self._reader = self._as_ours(lambda: relation.to_arrow_reader(BATCH_ROWS))
        return True

    def _following(self) -> pa.RecordBatch | None:
        return self._as_ours(self._read)

    def _read(self) -> pa.RecordBatch | None:
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            return None

    def _as_ours(self, act: Callable[[], T]) -> T:
        """With the reason for a failure as `Session.failure` has it."""
        import duckdb
        import pyarrow as pa

        try:
            return act()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self._session.failure(error) from None

    def _done(self, act: Callable[[], T]) -> T:
        """What the thread makes of it. On Ctrl-C what runs there ends first."""
        future: Future[T] = self._thread.submit(act)
        try:
            while True:
                try:
                    return future.result(_LOOK_S)
                except TimeoutError:
                    if future.done():  # at this moment, or by a TimeoutError of its own
                        return future.result()
                    self._tick()
        except KeyboardInterrupt:
            while not future.done():
                self._session.interrupt()
                try:
                    future.exception(_LOOK_S)
                except TimeoutError:
                    continue
            raise
