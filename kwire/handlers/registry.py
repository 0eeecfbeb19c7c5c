"""The table of all APIs: those that the modules of the sub-packages declare, and a refusal for every other one that
Kafka's brokers serve.

A handler's module is imported with the first request of its API: a broker starts without any of them. Until then,
`index` says which module it is and what ApiVersions returns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from importlib import import_module

from kwire import handlers
from kwire.codec.protocol import API_FACTS, ApiKey
from kwire.handlers.api import Api
from kwire.handlers.index import INDEX

TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
"""Advertised by brokers that forward what clients push."""

Change = Callable[[Api], Api]
"""Derives from an API the one that is served in its place."""


class Registry:
    """The APIs of a broker by key. ``change`` is applied to each."""

    def __init__(self, change: Change | None = None) -> None:
        self._keys = sorted(key for key, facts in API_FACTS.items() if "broker" in facts.listeners or key in INDEX)
        self._change = change
        self._loaded: dict[int, Api] = {}
        self.pipelined_keys = frozenset(int(key) for key, entry in INDEX.items() if entry.pipelined)

    def get(self, key: int) -> Api | None:
        """The API of a key; None if Kafka's brokers have no such API either."""
        if key in self._keys and key not in self._loaded:
            api = load(key)
            self.replace(api if self._change is None else self._change(api))
        return self._loaded.get(key)

    def replace(self, api: Api) -> None:
        """Serve an API in the place of the declared one. A dispatcher that has used that one goes on with it."""
        self._loaded[int(api.key)] = api

    def __iter__(self) -> Iterator[Api]:
        return (api for key in self._keys if (api := self.get(key)) is not None)

    @staticmethod
    def advertised(*, with_telemetry: bool = True) -> list[tuple[int, int, int]]:
        """The entries of ApiVersions: (key, lowest version, highest version), by key. ``with_telemetry``: clients are
        to push metrics."""
        return [
            (int(key), *entry.advertised)
            for key, entry in INDEX.items()
            if entry.advertised is not None and (with_telemetry or key not in TELEMETRY)
        ]


def load(key: int) -> Api:
    """What serves an API as its module declares it, or its refusal."""
    entry = INDEX.get(key)
    if entry is None:
        from kwire.handlers.refusals import refusal

        return refusal(key)
    from kwire.handlers.audit.changes import audited

    api: Api = import_module(f"{handlers.__name__}.{entry.module}").API
    if api.by_controller:
        from kwire.handlers.forwarding import forwarded

        api = dataclasses.replace(api, handle=forwarded(api.handle, is_whole=True))
    api = audited(api)
    if api.sliced:
        from kwire.handlers.large_requests import sliced

        api = sliced(api)
    return api
