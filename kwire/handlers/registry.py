"""The table of all APIs: those that the modules of the sub-packages declare, and a refusal for every other one that
Kafka's brokers serve.

A module with an `Api` called ``API`` is a handler module; nothing else has to be edited to add one. What a module
declares is all that ApiVersions and the dispatcher see of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from kwire import handlers
from kwire.codec.protocol import API_FACTS
from kwire.handlers.api import Api


class Registry:
    """The APIs of a broker by key."""

    def __init__(self, apis: dict[int, Api]) -> None:
        self._apis = dict(sorted(apis.items()))
        self.pipelined_keys = frozenset(key for key, api in apis.items() if api.pipelined)

    @classmethod
    def load(cls) -> Registry:
        """All APIs that Kafka's brokers serve."""
        from kwire.handlers.forwarding import forwarded
        from kwire.handlers.refusals import refusal

        apis: dict[int, Api] = {}
        for api in _declared():
            apis[api.key] = dataclasses.replace(api, handle=forwarded(api.handle)) if api.by_controller else api
        for key, facts in API_FACTS.items():
            if "broker" in facts.listeners and key not in apis:
                apis[key] = refusal(key)
        return cls(apis)

    def get(self, key: int) -> Api | None:
        """The API of a key; None if Kafka's brokers have no such API either."""
        return self._apis.get(key)

    def __iter__(self) -> Iterator[Api]:
        return iter(self._apis.values())

    def advertised(self) -> list[tuple[int, int, int]]:
        """The entries of ApiVersions: (key, lowest version, highest version), by key."""
        return [(key, *api.advertised) for key, api in self._apis.items() if api.advertised is not None]


def _declared() -> Iterator[Api]:
    """The declarations in all sub-packages. The modules beside this one are helpers, of which a broker may never need
    some (`faults`), so they are not imported for it."""
    for module in iter_modules(handlers.__path__, f"{handlers.__name__}."):
        if module.ispkg:
            yield from _declared_in(module.name)


def _declared_in(package: str) -> Iterator[Api]:
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        if module.ispkg:
            yield from _declared_in(module.name)
        else:
            api = getattr(import_module(module.name), "API", None)
            if isinstance(api, Api):
                yield api
