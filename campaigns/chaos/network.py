"""Hosts that can be cut off from each other: network namespaces on one machine, joined by a bridge in one more.

The bridge is not in the root namespace, whose packet filter may refuse what is forwarded. Whoever is cut off hears
nothing more, without being told (packets are dropped on both sides). `Loopback` stands in where there are no
namespaces, and cuts nothing. What lives elsewhere: who is cut off when (`faults`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

CLIENTS = "clients"
"""The root namespace, in which the clients are."""

TOOLS = ("ip", "iptables")


class NetworkUnavailable(Exception):
    """Why there can be no namespaces here, in one line."""


class Loopback:
    """Everybody is 127.0.0.1."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self.hosts = list(hosts)

    def address(self, _host: str) -> str:
        return "127.0.0.1"

    def prefix(self, _host: str) -> list[str]:
        return []

    def cut(self, one: str, other: str) -> None:
        raise NetworkUnavailable("nobody can be cut off on loopback")

    def heal(self, one: str, other: str) -> None:
        """There is nothing to heal."""

    def heal_all(self) -> None:
        """There is nothing to heal."""

    def close(self) -> None:
        """There is nothing to remove."""


class Namespaces:
    """One namespace for each host, 10.213.X.N; the clients are 10.213.X.254. Raises `NetworkUnavailable`."""

    def __init__(self, hosts: Iterable[str]) -> None:
        why = why_unavailable()
        if why is not None:
            raise NetworkUnavailable(why)
        self.hosts = list(hosts)
        self._token = f"{os.getpid():x}"
        self._net = _free_net()
        self._switch = f"kwire-{self._token}-switch"
        self._here = f"kw{self._token}"
        self._cuts: Counter[frozenset[str]] = Counter()
        try:
            self._make()
        except NetworkUnavailable:
            self.close()
            raise

    def address(self, host: str) -> str:
        """Its IPv4 address."""
        number = 254 if host == CLIENTS else self.hosts.index(host) + 1
        return f"{self._net}.{number}"

    def prefix(self, host: str) -> list[str]:
        """What to put before a command that is to run there."""
        return ["ip", "netns", "exec", self._name(host)]

    def cut(self, one: str, other: str) -> None:
        """From now on neither hears the other."""
        pair = frozenset((one, other))
        if not self._cuts[pair]:
            self._filter("-A", one, other)
        self._cuts[pair] += 1

    def heal(self, one: str, other: str) -> None:
        """Take one cut back; as often as it was made."""
        pair = frozenset((one, other))
        if self._cuts[pair] == 1:
            self._filter("-D", one, other)
        self._cuts[pair] = max(0, self._cuts[pair] - 1)

    def heal_all(self) -> None:
        """Everybody hears everybody."""
        for pair in [pair for pair, cuts in self._cuts.items() if cuts]:
            self._cuts[pair] = 1
            self.heal(*sorted(pair))

    def close(self) -> None:
        """Remove everything; content with what is there."""
        subprocess.run(["ip", "link", "del", self._here], capture_output=True, check=False)
        for name in (self._switch, *map(self._name, self.hosts)):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def _filter(self, action: str, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            if here != CLIENTS:  # the machine's own filter is left alone; one side is enough for connections
                command = ["iptables", "-w", action]
                _run([*self.prefix(here), *command, "INPUT", "-s", self.address(there), "-j", "DROP"])
                _run([*self.prefix(here), *command, "OUTPUT", "-d", self.address(there), "-j", "DROP"])

    def _name(self, host: str) -> str:
        return f"kwire-{self._token}-{host}"

    def _make(self) -> None:
        switch = self._switch
        _run(["ip", "netns", "add", switch])
        _run(["ip", "-n", switch, "link", "add", "bridge", "type", "bridge"])
        _run(["ip", "-n", switch, "link", "set", "bridge", "up"])
        for number, host in enumerate(self.hosts):
            name = self._name(host)
            _run(["ip", "netns", "add", name])
            _run(
                ["ip", "-n", switch, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", name]
            )
            self._plug(f"v{number}")
            self._up(["-n", name], "eth0", host)
            _run(["ip", "-n", name, "link", "set", "lo", "up"])
        here = self._here
        _run(["ip", "link", "add", here, "type", "veth", "peer", "name", "v", "netns", switch])
        self._plug("v")
        self._up([], here, CLIENTS)

    def _plug(self, device: str) -> None:
        _run(["ip", "-n", self._switch, "link", "set", device, "master", "bridge", "up"])

    def _up(self, where: Sequence[str], device: str, host: str) -> None:
        _run(["ip", *where, "addr", "add", f"{self.address(host)}/24", "dev", device])
        _run(["ip", *where, "link", "set", device, "up"])


def why_unavailable() -> str | None:
    """Why there can be no namespaces: not root, or tools are missing. None: there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(missing)} (Debian: iproute2 iptables)" if missing else None


def _free_net() -> str:
    """The first 10.213.X of which this machine has no address."""
    used = _run(["ip", "-4", "-o", "addr"])
    for number in range(os.getpid() % 200, 250):
        if f" 10.213.{number}." not in used:
            return f"10.213.{number}"
    raise NetworkUnavailable("10.213.0.0/16 is in use")


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkUnavailable(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


@contextlib.contextmanager
def made(hosts: Iterable[str], *, namespaces: bool) -> Iterator[Loopback | Namespaces]:
    """A network of these hosts, removed afterwards."""
    network = Namespaces(hosts) if namespaces else Loopback(hosts)
    try:
        yield network
    finally:
        network.close()
