"""Kill registries with SIGKILL under load, the leader above all: nothing acknowledged is lost, no id is given twice.

    .venv/bin/python -m campaigns.schemas.registry_kills --kills 30 --seed 1

Three instances on one topic. Clients register versions of subjects of their own (some with schemas that others register
as well) and delete some subjects, each request at a random instance and again at another one until it is acknowledged;
what the instance has acknowledged they read back from it. Meanwhile instances are killed, one or several at once, and
started again; now and then the leader is stopped (SIGSTOP) until another one leads, and continued, or the broker is
killed. Each kill waits until the others have acknowledged more. In the end all instances, and a new one that reads the
topic from its beginning, must show exactly what has been acknowledged. A line of JSON says what happened; a difference
ends it with status 1.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from campaigns.command_line import campaign_parser
from campaigns.schemas.registry_model import Model
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.processes.ports import free_port
from harness.registries.process import Answer, Registry, call

INSTANCES: Final = 3
CLIENTS: Final = 4
_REQUEST_S: Final = 20.0
_LEADER_S: Final = 60.0
_PAUSE_S: Final = 0.02
_STOPPED_S: Final = (7.0, 12.0)
"""How long a leader is stopped: longer than the session of its membership, which is six seconds."""
_SHARED: Final = 50
"""Schemas that every client may register."""
_GONE: Final = frozenset({40401, 40404})
"""What a deletion is told that was done before, by an attempt without an answer."""


class CampaignFailed(Exception):
    """What was lost, given twice, or never came about."""


class Fleet:
    """The instances, each at an address of its own, which it keeps."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(INSTANCES)]
        self._running: list[Registry | None] = [None] * INSTANCES

    def start(self, index: int) -> None:
        """Start one; return when it serves."""
        self._running[index] = Registry(self._bootstrap, self._topic, listen=self.addresses[index])

    def kill(self, index: int) -> None:
        """Kill one."""
        registry, self._running[index] = self._running[index], None
        if registry is not None:
            registry.kill()

    def signal(self, index: int, number: signal.Signals) -> None:
        """Send one a signal."""
        registry = self._running[index]
        assert registry is not None
        registry.process.send_signal(number)

    def leader(self) -> int | None:
        """Which one says that it leads, if any does."""
        for index, registry in enumerate(self._running):
            if registry is not None and _leads(registry):
                return index
        return None

    def close(self) -> None:
        """End all."""
        for registry in self._running:
            if registry is not None:
                registry.kill()


def _leads(registry: Registry) -> bool:
    """Whether it has become the leader after the last time that it has elected another one."""
    leads = False
    for line in registry.log().splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "elected":
            leads = leads and event.get("leader") == registry.url
        elif event.get("event") == "leads":
            leads = True
    return leads


class Client:
    """Registers and deletes until it is told to stop, on a thread."""

    def __init__(self, number: int, addresses: list[str], model: Model, seed: int) -> None:
        self._number = number
        self._addresses = addresses
        self._model = model
        self._chance = random.Random(f"{seed}-{number}")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the request under way."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the end. `CampaignFailed` if it does not come."""
        self._thread.join(6 * _REQUEST_S)
        if self._thread.is_alive():
            raise CampaignFailed("a client's request is never acknowledged")

    def _run(self) -> None:
        subjects = 0
        try:
            while not self._stop.is_set() and not self._model.violations:
                subject = f"s{self._number}-{subjects}"
                subjects += 1
                for version in range(self._chance.randint(1, 4)):
                    self._register(subject, version)
                if self._chance.random() < 0.2:
                    self._delete(subject)
        except Exception as error:  # the thread must not end without a word
            self._model.violated(f"client {self._number}: {error!r}")

    def _register(self, subject: str, version: int) -> None:
        own = f"{subject}-{version}"
        doc = f"shared-{self._chance.randrange(_SHARED)}-{version}" if self._chance.random() < 0.2 else own
        text = json.dumps({"type": "record", "name": "R", "doc": doc, "fields": []}, separators=(",", ":"))
        answer, address, _ = self._acknowledged("POST", f"/subjects/{subject}/versions", {"schema": text})
        if answer.status != 200:
            self._model.violated(f"{subject}: {answer}")
            return
        number = self._model.registered(subject, answer.body["id"], text)
        wanted = {"subject": subject, "version": number, "id": answer.body["id"], "schema": text}
        try:
            read = call(f"http://{address}", "GET", f"/subjects/{subject}/versions/{number}", timeout_s=_REQUEST_S)
        except OSError:
            return  # it has been killed
        self._model.count("reads")
        if read != (200, wanted):
            self._model.violated(f"{address} has acknowledged {wanted} and answers {read}")

    def _delete(self, subject: str) -> None:
        answer, _, again = self._acknowledged("DELETE", f"/subjects/{subject}")
        if answer.status == 200 or (again and answer.status == 404 and answer.body["error_code"] in _GONE):
            self._model.deleted(subject)
        else:
            self._model.violated(f"deletion of {subject}: {answer}")

    def _acknowledged(self, method: str, path: str, body: Any = None) -> tuple[Answer, str, bool]:
        """The first answer that is no failure of the registry, whose it is, and whether there were attempts before."""
        again = False
        while True:
            time.sleep(_PAUSE_S)
            address = self._chance.choice(self._addresses)
            try:
                answer = call(f"http://{address}", method, path, body, timeout_s=_REQUEST_S)
            except OSError:
                self._model.count("attempts without an answer")
            else:
                if answer.status < 500:
                    return answer, address, again
                self._model.count("attempts with an error")
            again = True


def run_campaign(
    bootstrap: str, topic: str, *, kills: int, seed: int, broker: Broker | None = None, stops: bool = True
) -> dict[str, object]:
    """One run; what happened. ``broker``: to be killed as well; ``stops``: whether leaders are stopped and continued.
    `CampaignFailed`."""
    chance = random.Random(seed)
    started_s = time.monotonic()
    model, fleet = Model(), Fleet(bootstrap, topic)
    clients: list[Client] = []
    try:
        for index in range(INSTANCES):
            fleet.start(index)
        clients = [Client(number, fleet.addresses, model, seed) for number in range(CLIENTS)]
        while model.counts["kills"] < kills:
            _await_progress(model)
            time.sleep(chance.uniform(0, 1))
            _disturb(fleet, model, chance, broker, stops=stops)
        _await_progress(model)
        for each in clients:
            each.stop()
        for each in clients:
            each.join()
        _check(fleet, model, bootstrap, topic)
    finally:
        for each in clients:
            each.stop()
        fleet.close()
    return {**dict(sorted(model.counts.items())), "seconds": round(time.monotonic() - started_s)}


def _await_progress(model: Model, more: int = 20) -> None:
    """Wait until more versions have been acknowledged."""
    before, since_s = model.acknowledged, time.monotonic()
    wait_until(lambda: model.violations or model.acknowledged >= before + more, 180, "acknowledgements")
    if model.violations:
        raise CampaignFailed("; ".join(model.violations[:3]))
    model.counts["longest_wait_s"] = max(model.counts["longest_wait_s"], round(time.monotonic() - since_s))


def _disturb(fleet: Fleet, model: Model, chance: random.Random, broker: Broker | None, *, stops: bool) -> None:
    """Kill or stop somebody, and bring everybody back."""
    if not model.counts["kills_of_the_leader"]:  # while they elect none leads, and kills would hit none
        wait_until(lambda: fleet.leader() is not None, _LEADER_S, "a leader", 0.1)
    leader, dice = fleet.leader(), chance.random()
    if stops and leader is not None and dice < 0.15:
        fleet.signal(leader, signal.SIGSTOP)
        time.sleep(chance.uniform(*_STOPPED_S))
        fleet.signal(leader, signal.SIGCONT)
        model.count("leaders_stopped")
        return
    if broker is not None and dice < 0.3:
        broker.kill()
        broker.start()
        model.count("broker_kills")
        return
    victims = chance.sample(range(INSTANCES), chance.choice((1, 1, 1, 2, INSTANCES)) if model.counts["kills"] else 1)
    if leader is not None and (chance.random() < 0.6 or not model.counts["kills_of_the_leader"]):
        victims = [leader, *(each for each in victims[1:] if each != leader)]
    for index in victims:
        fleet.kill(index)
        model.count("kills")
        if index == leader:
            model.count("kills_of_the_leader")
    time.sleep(chance.uniform(0, 2))
    for index in victims:
        fleet.start(index)


def _check(fleet: Fleet, model: Model, bootstrap: str, topic: str) -> None:
    """Compare all instances, and a new one, with what has been acknowledged. `CampaignFailed`."""
    last = Registry(bootstrap, topic)
    try:
        for url in (last.url, *(f"http://{each}" for each in fleet.addresses)):
            everything = _settled(lambda: call(url, "GET", "/schemas?deleted=true"), model.expected(deleted=True))  # noqa: B023
            found = model.differences(everything, call(url, "GET", "/schemas").body)
            if found or model.violations:
                raise CampaignFailed(f"{url}: {'; '.join([*model.violations, *found][:5])}")
    finally:
        last.close()


def _settled(ask: Callable[[], Answer], expected: list[dict[str, Any]], attempts: int = 600) -> Any:
    """What an instance shows: what is expected, or the last of some attempts, for it may still be reading."""
    shown: Any = None
    for _ in range(attempts):
        shown = ask().body
        if shown == expected:
            break
        time.sleep(0.1)
    return shown


def main() -> int:
    """Run it on a broker of its own."""
    parser = campaign_parser("schemas.registry_kills", __doc__)
    parser.add_argument("--kills", type=int, default=30, help="of registries (default: 30)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=("kwire", "kafka"), default="kwire")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kwire-registries-") as home:
        broker = make_broker(arguments.broker, Path(home) / "broker")
        broker.start()
        try:
            summary = run_campaign(
                broker.bootstrap, "_schemas", kills=arguments.kills, seed=arguments.seed, broker=broker
            )
        except CampaignFailed as error:
            print(error, file=sys.stderr)
            return 1
        finally:
            broker.kill()
    print(json.dumps(summary), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
