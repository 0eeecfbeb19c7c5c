"""Which limit applies to a client: the eight levels of precedence of Kafka's `DefaultQuotaCallback`.

For each quota key, the first of these entities that has a limit decides:

1. user and client id
2. user, default client id
3. user
4. default user and client id
5. default user, default client id
6. default user
7. client id
8. default client id

A default limit is not shared by those it is for: with level 6, each user may use the whole of it. `Limit` says whose
usage is measured together. Addresses have their own limits, with one default. What lives elsewhere: measuring and
delaying.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.quotas.entities import CLIENT_ID, CONNECTION_CREATION_RATE, IP, USER, ClientQuotas


class Limit(NamedTuple):
    """A limit with whose usage counts towards it: of this user, of this client id, or of this client id of this user.

    ``value``: in the unit of the quota key (bytes per second, per cent of a thread, mutations per second).
    """

    value: float
    user: str | None
    client_id: str | None


class _Levels:
    """The limits of one quota key. Names of None are defaults."""

    __slots__ = ("both", "clients", "users")

    def __init__(self) -> None:
        self.both: dict[tuple[str | None, str | None], float] = {}
        self.users: dict[str | None, float] = {}
        self.clients: dict[str | None, float] = {}

    def add(self, names: dict[str, str | None], value: float) -> None:
        """Add the limit of an entity."""
        if CLIENT_ID not in names:
            self.users[names[USER]] = value
        elif USER not in names:
            self.clients[names[CLIENT_ID]] = value
        else:
            self.both[names[USER], names[CLIENT_ID]] = value

    def remove(self, names: dict[str, str | None]) -> None:
        """Remove the limit of an entity."""
        if CLIENT_ID not in names:
            del self.users[names[USER]]
        elif USER not in names:
            del self.clients[names[CLIENT_ID]]
        else:
            del self.both[names[USER], names[CLIENT_ID]]

    def copy(self) -> _Levels:
        """The same limits, to be changed."""
        made = _Levels()
        made.both, made.users, made.clients = dict(self.both), dict(self.users), dict(self.clients)
        return made

    @property
    def is_empty(self) -> bool:
        """Whether nobody has a limit."""
        return not (self.both or self.users or self.clients)

    def find(self, user: str, client_id: str) -> Limit | None:
        """The first limit in the order of precedence."""
        if not user or not client_id:
            return self._find_nameless(user, client_id)
        both, users = self.both, self.users
        value = both.get((user, client_id))
        if value is None:
            value = both.get((user, None))
        if value is not None:
            return Limit(value, user, client_id)
        value = users.get(user)
        if value is not None:
            return Limit(value, user, None)
        value = both.get((None, client_id))
        if value is None:
            value = both.get((None, None))
        if value is not None:
            return Limit(value, user, client_id)
        value = users.get(None)
        if value is not None:
            return Limit(value, user, None)
        return self._of_client(client_id)

    def _find_nameless(self, user: str, client_id: str) -> Limit | None:
        """For a client without a client id, only limits of users count. For a user without a name, the same holds the
        other way round, but a default limit of users hides those of client ids unless there is one of level 4 or 5."""
        if user:
            value = self.users.get(user, self.users.get(None))
            return None if value is None else Limit(value, user, None)
        if not client_id:
            return None
        hidden = None in self.users and (None, client_id) not in self.both and (None, None) not in self.both
        return None if hidden else self._of_client(client_id)

    def _of_client(self, client_id: str) -> Limit | None:
        value = self.clients.get(client_id, self.clients.get(None))
        return None if value is None else Limit(value, None, client_id)


_NO_LEVELS: Final = _Levels()


class ClientLimits:
    """An immutable index of all quotas of a cluster."""

    def __init__(self, client_quotas: ClientQuotas) -> None:
        self.empty = not client_quotas
        """Nobody has a limit."""
        self._levels: dict[str, _Levels] = {}
        self._addresses: dict[str | None, float] = {}
        for entity, quotas in client_quotas.items():
            names = entity.by_type()
            if IP in names:
                self._add_address(names[IP], quotas.get(CONNECTION_CREATION_RATE))
                continue
            for key, value in quotas.items():
                self._levels.setdefault(key, _Levels()).add(names, value)

    def changed(self, before: ClientQuotas, after: ClientQuotas) -> ClientLimits:
        """The index of ``after``, if this is that of ``before``. Quotas that are the same object have not changed: with
        thousands of entities, an index of all takes some milliseconds, and few change at a time."""
        gone = [entity for entity in before if entity not in after]
        new = [entity for entity, quotas in after.items() if before.get(entity) is not quotas]
        if any(kind == IP for entity in (*gone, *new) for kind, _ in entity.names):  # one address may have two entities
            return ClientLimits(after)
        made = ClientLimits({})
        made.empty = not after
        made._addresses = self._addresses
        levels = {key: each.copy() for key, each in self._levels.items()}
        for entity in (*gone, *new):
            for key in before.get(entity, ()):
                levels[key].remove(entity.by_type())
        for entity in new:
            for key, value in after[entity].items():
                levels.setdefault(key, _Levels()).add(entity.by_type(), value)
        made._levels = {key: each for key, each in levels.items() if not each.is_empty}
        return made

    def _add_address(self, name: str | None, value: float | None) -> None:
        if value is not None:
            self._addresses[name if name is None else canonical_address(name)] = value

    def has(self, key: str) -> bool:
        """Whether any user or client id has a limit of this key."""
        return key in self._levels

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The limit of a client, by the name of its principal and its client id; None if it has none."""
        return self._levels.get(key, _NO_LEVELS).find(user, client_id)

    def ip_limit(self, address: str) -> float | None:
        """The connections per second that an address may open; None if it has no limit."""
        if not self._addresses:
            return None
        return self._addresses.get(canonical_address(address), self._addresses.get(None))


def canonical_address(text: str) -> str:
    """The one text of an IPv4 or IPv6 address; an IPv4-mapped address is IPv4, as in Java. What is no address is left
    as it is."""
    from ipaddress import IPv6Address, ip_address

    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
