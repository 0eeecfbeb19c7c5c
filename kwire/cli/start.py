"""``kwire start``: a broker as a process.

Standard output carries one line, when clients are served: ``kwire ready bootstrap=HOST:PORT pid=PID``. Everything else
goes to standard error. SIGTERM and SIGINT stop the broker in good order, a second one ends it at once; SIGUSR1 writes
what goes on inside into the log.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kwire.cli import configuration, fail

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.server.broker import Broker


BROKERS_MAX = 16

GC_THRESHOLDS = (20_000, 20, 20)
"""Reference counts free what requests leave behind; the collector looks for cycles only, and a full look at thousands
of partitions holds the loop for 0.1 s and more. Python's own thresholds have it look thirty times as often."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kwire start``."""
    configuration.add_arguments(parser)
    parser.add_argument("--brokers", metavar="N", type=_count, default=1, help="start a cluster of N brokers on this host, ports counted up")  # fmt: skip  # noqa: E501
    parser.add_argument("--restart", action="store_true", help="with --brokers: start a broker that died again")
    parser.add_argument("--announce", metavar="LINE", action="append", default=[], help="a line to write after the ready line, for whoever waits for another broker's; {node.id} is replaced")  # fmt: skip  # noqa: E501


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= BROKERS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of brokers (1 to {BROKERS_MAX})")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    from kwire.base.config import ConfigError
    from kwire.server.errors import StartError

    _occupy_standard_descriptors()
    try:
        config = configuration.load(arguments)
    except ConfigError as error:
        return fail(error)
    except (OSError, UnicodeDecodeError) as error:
        return fail(f"{arguments.file or arguments.config}: {getattr(error, 'strerror', None) or error}")
    _raise_descriptor_limit()
    gc.set_threshold(*GC_THRESHOLDS)
    if arguments.brokers > 1:
        from kwire.cli.brokers import Brokers

        return asyncio.run(Brokers(config, arguments).run())
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            cause = runner.run(_serve(config, arguments.announce))
    except (ConfigError, StartError) as error:
        return fail(error)
    return fail(f"stopped: {cause}") if cause else 0


def _occupy_standard_descriptors() -> None:
    """Whoever closed a standard stream must not have its number given to a connection or a segment: what is written to
    the stream would go there, and libuv aborts when it closes one of the three."""
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
            return  # macOS says "unlimited" and means less


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it is installed; asyncio's own does as well, a little slower."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(config: KafkaConfig, announced: list[str]) -> str:
    """Run a broker until a signal comes; what ended it, where that was no signal."""
    from kwire.base.logging import get_logger
    from kwire.server.broker import Broker

    log = get_logger("kwire.server")
    broker = Broker(config, cluster_id=configuration.cluster_id_of_environment())
    stopped = asyncio.Event()
    with _signals(broker, stopped):
        if await _unless(stopped, broker.start()):
            if broker.control is not None:
                broker.control.on_abandoned = stopped.set
            ready = f"kwire ready bootstrap={broker.bootstrap_servers} pid={os.getpid()}"
            node_id = str(broker.config.node_id)
            _say([ready, *(line.replace("{node.id}", node_id) for line in announced)])
            await _first_of(stopped, broker.disk_trouble.over)
        log.info("stopping")
        try:
            await broker.stop()
        except Exception as error:
            if not broker.disk_trouble.over.is_set():
                raise
            log.debug("not stopped in order", error=repr(error))  # where would it have left anything
        log.info("stopped")
    return broker.disk_trouble.cause


async def _first_of(*events: asyncio.Event) -> None:
    """Return when one of several events is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()


def _say(lines: list[str]) -> None:
    """The one line, and what else was asked for. Its reader may be gone: clients are served all the same."""
    try:
        os.write(1, "".join(f"{line}\n" for line in lines).encode())  # nothing stays in a buffer
    except OSError as error:
        from kwire.base.logging import get_logger

        get_logger("kwire.server").warning("standard output takes no ready line", error=error.strerror)


async def _unless(stopped: asyncio.Event, work: Any) -> bool:
    """Do a piece of work, or give it up when the broker is told to stop; whether it was done."""
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
