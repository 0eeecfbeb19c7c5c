"""The longest turns of a broker's event loop while requests about thousands of partitions are handled.

    .venv/bin/python -m tools.benchmark.turns [--partitions 10000] [--acls] [--forwarded] [--rounds 3] [--dir DIR]

A broker runs in this process on a loop that measures the processor time of its own thread in each turn; a thread sends
the requests, one after the other. Half of the partitions are topics of one partition, the others are in five topics. A
line for each step says how many turns it took, which the longest were, and the round's processor time; of several
rounds, the one with the shortest longest turn is shown, because other work on the machine only makes turns longer. The
small topics give their names to as many users with quotas. With ``--acls``, an authorizer with 1,000 entries decides.
With ``--forwarded``, the requests go to a second broker on the same loop, which is not the controller.
Creating files takes the kernel very different times; data in ``--dir /dev/shm`` leave that out.

What lives elsewhere: the requests (`setups.large_requests`), how long clients wait for each other (``scripts/bench
--only beside-others``).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, NamedTuple

from harness.waiting import PATIENCE_S
from harness.wire_client import WireClient
from kwire.base.logging import configure, get_logger
from kwire.cli.start import GC_THRESHOLDS
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.create_acls_request import CreateAclsRequest
from kwire.server.broker import Broker
from tools.benchmark.setups.large_requests import ALL, COORDINATORS_ONLY, LEADERS_ONLY, Requests, allowed

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
REMOVED_MS: Final = 4000
"""When the files of a topic that was deleted are removed: after the step that deletes it."""

RETENTION_MS: Final = 3000
"""How often retention looks for expired records."""

REST_S: Final = 0.3
"""What a request has set in motion is part of its step; a pause of the loop ends the step."""


class MeasuredLoop(asyncio.SelectorEventLoop):
    """Measures the processor time of each turn."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []

    def _run_once(self) -> None:
        begun = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # asyncio has no public way to see a turn
        self.turns.append(time.thread_time() - begun)


class Step(NamedTuple):
    """What was measured of one request, in milliseconds."""

    turns: int
    longest: list[float]
    busy: float


async def measured(
    partitions: int, rounds: int, *, acls: bool, is_forwarded: bool = False, place: str | None = None
) -> dict[str, Step]:
    """Each step with its shortest longest turn."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MeasuredLoop)
    best: dict[str, Step] = {}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-turns-", dir=place))
        brokers = [await stack.enter_async_context(each) for each in _brokers(folder, acls, is_forwarded)]
        call = asyncio.to_thread
        client = await call(WireClient, brokers[-1].bootstrap_servers, timeout_s=10 * PATIENCE_S)
        expire_offsets = partial(loop.call_soon_threadsafe, brokers[-1].services.groups.expire_offsets)
        if acls:
            await call(_allow_everything, client)
        for _ in range(rounds):
            for name, send in Requests(client, partitions, folder, acls=acls, expire_offsets=expire_offsets).steps():
                if is_forwarded and send.__name__ in (*LEADERS_ONLY, *COORDINATORS_ONLY):
                    continue
                await asyncio.sleep(REST_S)
                loop.turns.clear()
                await call(send)
                await _settled(loop, brokers)
                step = _step(loop.turns)
                if name not in best or step.longest[0] < best[name].longest[0]:
                    best[name] = step
        await call(client.close)
    return best


def _brokers(folder: str, acls: bool, is_forwarded: bool) -> list[Broker]:
    """One broker, or two of one cluster, of which the first is the controller."""
    access: dict[str, Any] = {"authorizer_class_name": STANDARD_AUTHORIZER} if acls else {}
    access |= {"allow_everyone_if_no_acl_found": True}  # the client may add the first entries
    access |= {"log_segment_delete_delay_ms": REMOVED_MS, "log_retention_check_interval_ms": RETENTION_MS}
    listener = "PLAINTEXT://127.0.0.1:0"
    if not is_forwarded:
        return [Broker(listeners=listener, log_dirs=folder, **access)]
    store = MemoryStore()
    return [
        Broker(store=store, node_id=number, listeners=listener, log_dirs=f"{folder}/{number}", **access)
        for number in (1, 2)
    ]


def _allow_everything(client: WireClient) -> None:
    """An entry that allows everything, and many others."""
    users = ["User:ANONYMOUS", *(f"User:other-{number}" for number in range(999))]
    creations = [
        allowed(user, kind, name, ALL)
        for user in users
        for kind, name in ((2, "*"), (4, "kafka-cluster"))[: 2 if user == users[0] else 1]
    ]
    results = client.call(CreateAclsRequest(creations=creations), 3).results
    assert not any(each.error_code for each in results)


async def _settled(loop: MeasuredLoop, brokers: list[Broker]) -> None:
    """Return when the loop has little to do: what a request has set in motion is done."""
    while True:
        for broker in brokers:
            await broker.replicas.wait_until_applied()
        before = len(loop.turns)
        await asyncio.sleep(REST_S)
        if len(loop.turns) - before < 10:
            return


def _step(turns: list[float]) -> Step:
    longest = sorted((each * 1000 for each in turns), reverse=True)
    return Step(len(turns), longest[:3], sum(longest))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure the longest turns of a broker's event loop.")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where the broker has its data (default: a temporary directory)")
    parser.add_argument("--acls", action="store_true", help="with an authorizer of 1,000 entries")
    parser.add_argument("--forwarded", action="store_true", help="through a broker that is not the controller")
    arguments = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    with (
        open(os.devnull, "w") as log,
        asyncio.Runner(loop_factory=MeasuredLoop) as runner,
    ):
        configure(stream=log)  # the lines are made, as those of a broker are
        get_logger("kwire.server").info("measuring")  # the first line takes what a broker's start has taken
        best = runner.run(
            measured(
                arguments.partitions,
                arguments.rounds,
                acls=arguments.acls,
                is_forwarded=arguments.forwarded,
                place=arguments.dir,
            )
        )
    print(f"{'request':45} {'turns':>6} {'processor time':>15}   longest turns")
    for name, step in best.items():
        print(f"{name:45} {step.turns:6} {step.busy:12.0f} ms   {', '.join(f'{each:.1f}' for each in step.longest)} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
