"""Run three simulated brokers, clients and faults with many seeds; each seed replays exactly.

    .venv/bin/python -m campaigns.simulated_cluster --count 5000 --seed 1 --jobs 2
    .venv/bin/python -m campaigns.simulated_cluster --replay 4711
    .venv/bin/python -m campaigns.simulated_cluster --access --count 5000 --jobs 2
    .venv/bin/python -m campaigns.simulated_cluster --share --count 5000 --jobs 2

Each seed decides delays, kills, power losses, pauses, network partitions, expired sessions and orderly stops, and what
clients do meanwhile (`harness.simulation.workload`). When all faults are over, everything is read, and the history is
checked (`harness.simulation.checker`). With ``--access`` the brokers have an authorizer, and a client is forbidden a
topic and allowed it again while all this happens (`harness.simulation.access`). With ``--share`` a share group reads
the topic in place of other consumers (`harness.simulation.sharing`). The exit status is 1 if a seed fails; the failing
seeds are printed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from campaigns.command_line import campaign_parser
from campaigns.seeds import silence
from harness.simulation.access import ALTERER, ASKER, SETTINGS, AccessHistory, Alterer, Asker
from harness.simulation.checker import anomalies
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.faults import Faults
from harness.simulation.sharing import group as share_group
from harness.simulation.sharing.group import Sharing
from harness.simulation.transactional import TransactionalProducer
from harness.simulation.workload import Client, Consumer, History, Producer, create_topic
from harness.simulation.world import Simulation

PARTITIONS = 2
FAULTS_S = 5.0


@dataclass
class Outcome:
    """One seed's result."""

    seed: int
    wrong: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    digest: str = ""


async def scenario(simulation: Simulation, outcome: Outcome, *, access: bool, share: bool) -> None:
    """Run one seed from its beginning to its end."""
    random = simulation.random("scenario")
    flushed = random.random() < 0.25
    properties = {"log.flush.interval.messages": "1"} if flushed else {}
    if access:
        properties |= SETTINGS
    if share:
        properties |= share_group.SETTINGS
    cluster = SimulatedCluster(simulation, properties=properties, deaths_are_seen=random.random() < 0.5)
    history = History()
    await cluster.start()
    await create_topic(cluster, PARTITIONS, {})
    loop = asyncio.get_running_loop()
    asking = AccessHistory()
    alterer, asker = (Client(cluster, name, 1) for name in (ALTERER, ASKER))
    altering, asks = Alterer(alterer, asking), Asker(asker, asking)
    if access:
        await altering.prepare(cluster)
    sharing = Sharing(cluster, PARTITIONS) if share else None
    if sharing is not None:
        await sharing.prepare()
    end_s = loop.time() + FAULTS_S
    values = itertools.count(1)
    clients = {name: Client(cluster, name, PARTITIONS) for name in ("p0", "t0", "t1", "c0", "c1")}
    producer = Producer(clients["p0"], history, values)
    transactional = [
        TransactionalProducer(clients[name], history, values) for name in ("t0", "t1")[: 1 if share else 2]
    ]
    readers = (
        []  # the share group takes their place
        if share
        else [Consumer(clients["c0"], history, "c0"), Consumer(clients["c1"], history, "c1", committed=True)]
    )
    faults = Faults(
        cluster,
        simulation.random("faults"),
        any_power_loss=flushed,
        clients=[*clients, *((ALTERER, ASKER) if access else ()), *(sharing.hosts if sharing else ())],
        keeps_leases=access,
    )
    everybody: list[Producer | TransactionalProducer | Consumer | Alterer | Asker | Sharing] = [
        producer,
        *transactional,
        *readers,
        *((altering, asks) if access else ()),
        *((sharing,) if sharing else ()),
    ]
    await asyncio.gather(*(each.run(end_s + 1) for each in everybody), faults.run(end_s))
    stuck = await faults.mend()
    if stuck:
        outcome.wrong.append(stuck)
    else:
        async with asyncio.timeout(240):
            for each in transactional:
                await each.end()
            ends = await read_all(cluster, history, readers)
            if access:
                await altering.end()
                await asks.end()
            if sharing is not None:
                await sharing.finish(ends, history)
        outcome.wrong += anomalies(history) + asking.leaks() + (sharing.anomalies(history) if sharing else [])
    outcome.wrong += cluster.trouble
    outcomes = Counter(f"transactions {txn.outcome}" for txn in history.transactions if txn.sent)
    polled = sum(map(len, (*history.polled.values(), *history.committed_polled.values())))
    outcome.counts = {
        **faults.counts,
        "acked": len(history.acked),
        "unknown": len(history.unknown),
        "polled": polled,
        **outcomes,
    }
    if access:
        outcome.counts |= {
            "ACL changes": altering.changes,
            "refused": asking.refused,
            "served": len(asking.served),
            "throttled": asking.throttled,
        }
    if sharing is not None:
        outcome.counts |= sharing.counts()
    await cluster.stop()


async def read_all(cluster: SimulatedCluster, history: History, readers: list[Consumer]) -> dict[int, int]:
    """Read every partition to its end with both isolation levels, for the checker; return the ends."""
    ends: dict[int, int] = {}
    for committed, logs in ((False, history.final), (True, history.committed)):
        last = Consumer(Client(cluster, f"last {committed}", PARTITIONS), history, "last", committed=committed)
        await last.read_to_end()
        ends = dict(last.positions)
        logs.update({partition: {} for partition in range(PARTITIONS)})
        for partition, offset, value in last.read:
            logs[partition][offset] = value
    for reader in readers:
        await reader.read_to_end()
    return ends


def run(seed: int, keep: int = 0, *, access: bool = False, share: bool = False) -> Outcome:
    """One seed."""
    outcome = Outcome(seed)
    simulation = Simulation(seed, keep)
    simulation.loop.set_exception_handler(lambda _, __: None)
    try:
        simulation.run(scenario(simulation, outcome, access=access, share=share))
    except BaseException:
        outcome.wrong.append(traceback.format_exc())
    outcome.digest = simulation.trace.digest()
    return outcome


def main() -> int:
    """The command line; 1 if a seed fails."""
    parser = campaign_parser("simulated_cluster", __doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--access", action="store_true", help="with an authorizer whose entries change")
    parser.add_argument("--share", action="store_true", help="with a share group")
    parser.add_argument("--replay", type=int, help="run one seed, with its log")
    arguments = parser.parse_args()
    if arguments.replay is not None:
        outcome = run(arguments.replay, access=arguments.access, share=arguments.share)
        print(json.dumps(outcome.counts), outcome.digest)
        print("\n".join(outcome.wrong) or "clean")
        return 1 if outcome.wrong else 0
    be_quiet()
    started, total, wrong = time.monotonic(), Counter[str](), []
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, be_quiet) as pool:
        for number, outcome in enumerate(
            pool.imap_unordered(partial(run, access=arguments.access, share=arguments.share), seeds, chunksize=2),
            1,
        ):
            total.update(outcome.counts)
            if outcome.wrong:
                wrong.append(outcome.seed)
                print(f"seed {outcome.seed}: {outcome.wrong[0]}", flush=True)
            if number % 100 == 0:
                print(f"{number} seeds, {number / (time.monotonic() - started) * 60:.0f} a minute", flush=True)
    print(json.dumps({"seeds": len(seeds), "seconds": round(time.monotonic() - started), "wrong": wrong, **total}))
    return 1 if wrong else 0


def be_quiet() -> None:
    """Turn the log off, and warnings of work that killed processes have left unfinished."""
    silence()
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    tell = sys.unraisablehook
    sys.unraisablehook = lambda found: None if "GeneratorExit" in str(found.exc_value) else tell(found)


if __name__ == "__main__":
    sys.exit(main())
