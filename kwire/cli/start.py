"""``kwire start``: a broker as a process.

Standard output carries one line, when clients are served: ``kwire ready bootstrap=HOST:PORT pid=PID``; with
``--console`` another one, ``kwire console ready url=URL``, follows, with ``--registry`` ``kwire registry ready
url=URL``. Everything else goes to standard error. SIGTERM and SIGINT stop the broker cleanly, a second one ends it at
once; SIGUSR1 logs the state of the broker.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kwire.base.extras import missing
from kwire.cli import configuration, fail
from kwire.cli.running.children import CONSOLE_LISTEN, REGISTRY_LISTEN, Beside, beside, listen_address

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.server.broker import Broker


DESCRIPTORS = 16 * 1024
"""Descriptors for which the kernel has room from the start: 128 KiB of its memory."""

SETTLED_S = 1.0
"""So long after the ready line comes what the first clients need not wait for."""

GC_THRESHOLDS = (5_000, 0, 840)
"""Reference counts free what requests leave behind. The collector only finds cycles, and a full collection with
thousands of partitions blocks the loop for 0.1 s and more: Python's own thresholds start one a hundred times as often.
Young objects are collected while they are few, because other requests wait meanwhile: the middle generation is
collected every second time, with 10,000 of them. 60,000, those of 1,500 new connections, take 6 to 18 ms.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kwire start``."""
    configuration.add_arguments(parser)
    brokers_help = (
        "start a cluster of N brokers on this host, on consecutive ports; auto: one for each core that this process "
        "may use, with the defaults of one broker; topics and leaders are spread evenly over them"
    )
    parser.add_argument("--brokers", metavar="N|auto", type=_count, default=1, help=brokers_help)
    restart_help = "with --brokers: restart a broker that has ended; auto implies it"
    parser.add_argument("--restart", action="store_true", help=restart_help)
    announce_help = (
        "another line to write after the ready line, for scripts that wait for that line; {node.id} is replaced"
    )
    console_help = "serve a web page that shows the cluster, with `kwire console`; default address: " + CONSOLE_LISTEN
    parser.add_argument(
        "--console", metavar="HOST:PORT", nargs="?", const=CONSOLE_LISTEN, type=listen_address, help=console_help
    )
    registry_help = "serve schemas, with `kwire registry`; default address: " + REGISTRY_LISTEN
    parser.add_argument(
        "--registry", metavar="HOST:PORT", nargs="?", const=REGISTRY_LISTEN, type=listen_address, help=registry_help
    )
    from_help = "if the data directory is empty, restore the newest backup of this place into it: see kwire backup"
    parser.add_argument("--from", metavar="PLACE", dest="backup", help=from_help)
    parser.add_argument("--announce", metavar="LINE", action="append", default=[], help=announce_help)


def _count(text: str) -> int:
    from kwire.cli.brokers.numbers import AUTO, BROKERS_MAX

    if text == "auto":
        return AUTO
    if not text.isdecimal() or not 1 <= int(text) <= BROKERS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of brokers (1 to {BROKERS_MAX}) or auto")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    from kwire.base.config import ConfigError
    from kwire.server.errors import StartError

    _occupy_standard_descriptors()
    for extra in ("console", "registry"):
        if getattr(arguments, extra) and (reason := missing(extra)):
            return fail(reason)
    try:
        config = configuration.load(arguments)
    except ConfigError as error:
        return fail(error)
    except (OSError, UnicodeDecodeError) as error:
        return fail(f"{arguments.file or arguments.config}: {getattr(error, 'strerror', None) or error}")
    if arguments.backup is not None:
        reason = missing("archive") or _restore_first(arguments, config)
        if reason is not None:
            return fail(reason)
    _raise_descriptor_limit()
    _grow_descriptor_table()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        if arguments.brokers != 1:
            from kwire.cli.brokers.supervisor import Brokers

            return asyncio.run(Brokers(config, arguments).run())
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            cause = runner.run(_serve(config, arguments.announce, beside(arguments)))
    except (ConfigError, StartError) as error:
        return fail(error)
    return fail(f"stopped: {cause}") if cause else 0


def _restore_first(arguments: argparse.Namespace, config: KafkaConfig) -> str | None:
    """Restore the newest backup, if there is no data yet; what is wrong, in one line."""
    if config.is_clustered or arguments.brokers != 1 or len(config.data_dirs) != 1:
        return "--from starts a broker that is its whole cluster, with one data directory"
    from importlib import import_module

    backup = import_module("kwire.archive.backup.command")  # it lies above this package
    reason: str | None = backup.restore_before_start(arguments.backup, config.data_dirs[0])
    return reason


def _occupy_standard_descriptors() -> None:
    """Open /dev/null for every standard stream that is closed. Otherwise a connection or a segment would get its
    number, and receive what is written to the stream; and libuv aborts when it closes one of the three."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - for as long as the process lives


def _raise_descriptor_limit() -> None:
    """Every connection and open segment is a descriptor; the usual limit of a shell is 1024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return  # macOS reports "unlimited" but accepts less


def _grow_descriptor_table() -> None:
    """Have the kernel make room for `DESCRIPTORS` descriptors, before there are threads. Once there are, Linux waits
    for a grace period of RCU whenever the table gets too small, and the broker with it: 10 to 25 ms, at seven times
    while 10,000 clients connect."""
    import fcntl
    import resource

    number = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], DESCRIPTORS) - 1
    try:
        os.close(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, number))
    except OSError:
        return  # another process may have lowered the limit meanwhile: the table grows later, then


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop if it is installed; asyncio's own works as well, a little slower."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(config: KafkaConfig, announced: list[str], others: list[Beside]) -> str:
    """Run a broker until a signal comes. Returns the cause if it ended otherwise, or an empty text."""
    from kwire.base.logging import get_logger
    from kwire.base.processes.memory import MemoryKeeper
    from kwire.base.processes.wakeups import ask_soon
    from kwire.server.broker import Broker
    from kwire.server.ready_line import ReadyLine

    log = get_logger("kwire.server")
    broker = Broker(config, cluster_id=configuration.cluster_id_of_environment())
    stopped = asyncio.Event()
    with _signals(broker, stopped):
        if await _run_unless(stopped, broker.start()):
            if broker.control is not None:
                broker.control.on_abandoned = stopped.set
            ready = str(ReadyLine(broker.bootstrap_servers, os.getpid()))
            node_id = str(broker.config.node_id)
            _write_lines([ready, *(line.replace("{node.id}", node_id) for line in announced)])
            loop = asyncio.get_running_loop()
            loop.call_later(SETTLED_S, ask_soon, threading.get_native_id())
            MemoryKeeper(loop.call_later)
            for each in others:
                await each.start(broker.bootstrap_servers)
            await _first_of(stopped, broker.fatal_failure.occurred)
            await asyncio.gather(*(each.stop() for each in others))
        log.info("stopping")
        try:
            await broker.stop()
        except Exception as error:
            if not broker.fatal_failure.occurred.is_set():
                raise
            log.debug("not stopped in order", error=repr(error))  # expected after a fatal failure
        log.info("stopped")
    return broker.fatal_failure.cause


async def _first_of(*events: asyncio.Event) -> None:
    """Return when one of several events is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


def _write_lines(lines: list[str]) -> None:
    """Write the ready line and the announced ones. If standard output is closed, the broker serves clients anyway."""
    try:
        os.write(1, "".join(f"{line}\n" for line in lines).encode())  # nothing stays in a buffer
    except OSError as error:
        from kwire.base.logging import get_logger

        get_logger("kwire.server").warning("standard output takes no ready line", error=error.strerror)


async def _run_unless(stopped: asyncio.Event, work: Any) -> bool:
    """Run ``work`` to its end, or cancel it on a signal. Returns whether it ended by itself."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
        return False
    task.result()
    return True


@contextmanager
def _signals(broker: Broker, stopped: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopped.is_set():
            sys.stderr.flush()
            os._exit(128 + number)
        stopped.set()

    def dump() -> None:
        from kwire.server.dump import dump

        dump(broker)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGUSR1, dump)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            loop.remove_signal_handler(number)
