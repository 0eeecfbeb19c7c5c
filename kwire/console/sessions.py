"""`Sessions`: people who have logged in with their names and passwords of a cluster, which the cluster itself checks.

With ``kwire console --login`` there is no token. A session has connections of its own, which log in as its user, so
that the cluster's access control decides what it sees and may do. It knows one user for each cluster. Passwords stay in
memory, until the session ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kwire.cli.connection.cluster import Cluster, LoginRefused
from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.librdkafka import java_names
from kwire.console.api.broker_rates import Rates
from kwire.console.api.history import Histories
from kwire.console.clusters import Clusters, Target
from kwire.console.failures import Refusal, bad_request, unknown

IDENTITY_BYTES: Final = 32
SESSIONS_MAX: Final = 256
LIFETIME_S: Final = 12 * 3600.0
IDLE_S: Final = 3600.0
"""A page asks every few seconds: a session without requests has no page any more."""
ATTEMPTS_MAX: Final = 4
"""Logins that are checked at the same time."""
WAITING_MAX: Final = 32
REFUSED_S: Final = 1.0
"""Seconds until a refused login is answered, which slows guessing; brokers have a delay of their own."""
NAME_MAX: Final = 256
PASSWORD_MAX: Final = 1024
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Workspace:
    """What requests with the same rights share."""

    def __init__(self, clusters: Clusters) -> None:
        self.clusters = clusters
        self.histories = Histories()
        self._rates: dict[str, Rates] = {}
        self.closing = asyncio.Event()
        """Set at the end: streams end."""

    def rates_of(self, cluster: str) -> Rates:
        """The rates of a cluster's brokers."""
        return self._rates.setdefault(cluster, Rates())

    def close(self) -> None:
        """End everything that goes on for it."""
        self.closing.set()
        self.histories.close()
        self.clusters.close()


class Session:
    """Somebody who has logged in. ``users``: their names by cluster."""

    def __init__(self, clusters: Clusters, now_s: float) -> None:
        self.workspace = Workspace(clusters)
        self.users: dict[str, str] = {}
        self.began_s = self.used_s = now_s


class Sessions:
    """All sessions of a console, by the hash of what their cookies say. ``clock``: seconds."""

    def __init__(
        self, targets: Iterable[Target], *, read_only: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._targets = {each.name: each for each in targets}
        self._read_only = read_only
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}
        self._checking = asyncio.Semaphore(ATTEMPTS_MAX)
        self._waiting = 0

    @property
    def names(self) -> list[str]:
        """The clusters that one may log in to."""
        return list(self._targets)

    def find(self, identity: str | None) -> Session | None:
        """The session of a cookie; None if there is none, or it has ended."""
        self._end_old()
        session = self._sessions.get(_key(identity)) if identity else None
        if session is not None:
            session.used_s = self._clock()
        return session

    async def log_in(self, identity: str | None, cluster: str, name: str, password: str) -> str:
        """Log in to a cluster; the cookie from now on, for all clusters logged in to so far. `Refusal`."""
        target = self._targets.get(cluster)
        if target is None:
            raise unknown("cluster", f"there is no cluster {cluster}")
        properties = _login(target, name, password)
        await self._check(target._replace(properties=properties))
        session = self.find(identity)
        if session is None:
            if len(self._sessions) >= SESSIONS_MAX:
                raise Refusal(503, "busy", f"{SESSIONS_MAX} people have logged in already")
            session = Session(Clusters(self._targets.values(), read_only=self._read_only, locked=True), self._clock())
        self._sessions.pop(_key(identity or ""), None)
        session.workspace.clusters.unlock(cluster, properties)
        session.users[cluster] = name
        made = secrets.token_urlsafe(IDENTITY_BYTES)  # a new one with each login: nobody can foist a known one
        self._sessions[_key(made)] = session
        return made

    def log_out(self, identity: str | None) -> None:
        """End a session."""
        session = self._sessions.pop(_key(identity or ""), None)
        if session is not None:
            session.workspace.close()

    def close(self) -> None:
        """End all sessions."""
        for session in self._sessions.values():
            session.workspace.close()
        self._sessions.clear()

    async def _check(self, target: Target) -> None:
        """Connect as the user. `Refusal`."""
        if self._waiting >= WAITING_MAX:
            raise Refusal(503, "busy", "too many logins at the same time")
        self._waiting += 1
        try:
            async with self._checking:
                cluster = Cluster.of(target.bootstrap, target.properties, target.timeout_s)
                try:
                    await cluster.connect(once=True)
                except LoginRefused:
                    await asyncio.sleep(REFUSED_S)
                    raise Refusal(401, "login_refused", f"{target.name} refuses this name and password") from None
                except CommandError as error:
                    raise Refusal(502, "cluster_unreachable", str(error)) from None
                finally:
                    cluster.close()
        finally:
            self._waiting -= 1

    def _end_old(self) -> None:
        now_s = self._clock()
        for key, each in list(self._sessions.items()):
            if now_s - each.began_s >= LIFETIME_S or now_s - each.used_s >= IDLE_S:
                del self._sessions[key]
                each.workspace.close()


def why_no_logins(targets: Iterable[Target]) -> str | None:
    """Why people cannot log in to the clusters; None if they can."""
    for each in targets:
        protocol, mechanism = (each.properties.get(name, "") for name in ("security.protocol", "sasl.mechanism"))
        if not protocol.upper().startswith("SASL_") or mechanism not in MECHANISMS:
            return (
                f"--login: {each.name} needs security.protocol=SASL_SSL (or SASL_PLAINTEXT) and sasl.mechanism, one of"
                f" {', '.join(MECHANISMS)}, in its client properties (-X, --command-config, --profile)"
            )
    return None


def _key(identity: str) -> bytes:
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()


def _login(target: Target, name: str, password: str) -> Mapping[str, str]:
    """The client properties of a user. `Refusal` for what no name or password has."""
    for text, longest in ((name, NAME_MAX), (password, PASSWORD_MAX)):
        if not text or len(text) > longest or not text.isprintable():
            raise bad_request("a name and a password are needed, in characters that can be printed")
    properties = {key: value for key, value in target.properties.items() if key != "sasl.jaas.config"}
    return java_names({**properties, "sasl.username": name, "sasl.password": password})
