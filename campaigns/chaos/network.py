"""Hosts that can be partitioned: network namespaces on one machine, joined by a bridge in a further namespace.

The bridge is not in the root namespace, whose packet filter may refuse forwarded packets. Packets between partitioned
hosts are dropped silently. `Loopback` replaces namespaces where there are none, and partitions nothing. What lives
elsewhere: which hosts are partitioned when (`faults`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

CLIENTS = "clients"
"""The root namespace, where the clients run."""

TOOLS = ("ip", "iptables")


class NetworkUnavailable(Exception):
    """Namespaces are not possible here; the message gives the reason in one line."""


class Loopback:
    """All hosts are 127.0.0.1; nothing is ever partitioned."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self.hosts = list(hosts)

    def address(self, _host: str) -> str:
        """The IPv4 address that all hosts share."""
        return "127.0.0.1"

    def prefix(self, _host: str) -> list[str]:
        """An empty prefix: every command runs on this machine."""
        return []

    def cut(self, one: str, other: str) -> None:
        """Not possible on loopback. Raises `NetworkUnavailable`."""
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
        """The prefix of a command that runs on a host."""
        return ["ip", "netns", "exec", self._name(host)]

    def cut(self, one: str, other: str) -> None:
        """Drop all packets between two hosts."""
        pair = frozenset((one, other))
        if not self._cuts[pair]:
            self._filter("-A", one, other)
        self._cuts[pair] += 1

    def heal(self, one: str, other: str) -> None:
        """Undo one `cut`; two hosts that were cut twice must be healed twice."""
        pair = frozenset((one, other))
        if self._cuts[pair] == 1:
            self._filter("-D", one, other)
        self._cuts[pair] = max(0, self._cuts[pair] - 1)

    def heal_all(self) -> None:
        """Let all hosts reach each other again."""
        for pair in [pair for pair, cuts in self._cuts.items() if cuts]:
            self._cuts[pair] = 1
            self.heal(*sorted(pair))

    def close(self) -> None:
        """Remove whatever exists of the network."""
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
    """Why namespaces are not possible (not root, or missing tools); None if they are."""
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
