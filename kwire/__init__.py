"""kwire: a Kafka broker in Python that speaks the real wire protocol. ``kwire.Broker`` is all a program needs.

Importing this package costs nothing: what it exports is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kwire.server.broker import Broker

__all__ = ["Broker", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from kwire.server.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
