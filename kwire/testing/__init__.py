"""For tests, those of kwire's users first: a broker process, pytest fixtures, a container, faults on demand
(docs/TESTING.md). And for kwire's own: a raw protocol client and the deterministic simulation of a whole broker.

Importing this package costs nothing: what it exports is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kwire.testing.broker import Kwire, RunningBroker
    from kwire.testing.container import KwireContainer
    from kwire.testing.process import KwireProcess, KwireStartError

__all__ = ["Kwire", "KwireContainer", "KwireProcess", "KwireStartError", "RunningBroker"]

_HOMES = {
    "Kwire": "broker",
    "KwireContainer": "container",
    "KwireProcess": "process",
    "KwireStartError": "process",
    "RunningBroker": "broker",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"kwire.testing.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
