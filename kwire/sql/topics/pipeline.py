"""Reading ahead: a thread makes batches while DuckDB works on those before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Empty, Full, Queue
from typing import Final, TypeVar

T = TypeVar("T")

_DEPTH: Final = 8
_LOOK_S: Final = 0.05


class _End:
    """Behind the last item; ``error`` if that is why there are no more."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items; at most eight wait to be taken. Closing the iterator ends the thread, and closes ``items``."""
    waiting: Queue[T | _End] = Queue(_DEPTH)
    stopped = threading.Event()
    thread = threading.Thread(target=_fill, args=(items, waiting, stopped), name="kwire-sql-reader", daemon=True)
    thread.start()
    try:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopped.set()
        _empty(waiting)
        thread.join()


def _fill(items: Iterator[T], waiting: Queue[T | _End], stopped: threading.Event) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            if not _put(waiting, item, stopped):
                break
    except BaseException as caught:
        error = caught
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
    _put(waiting, _End(error), stopped)


def _put(waiting: Queue[T | _End], item: T | _End, stopped: threading.Event) -> bool:
    """Whether anybody still wants it."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=_LOOK_S)
        except Full:
            continue
        return True
    return False


def _empty(waiting: Queue[T | _End]) -> None:
    try:
        while True:
            waiting.get_nowait()
    except Empty:
        pass
