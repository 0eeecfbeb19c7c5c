"""`run_at`: something done at the sink's cluster by a process that is not asynchronous."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.spark import clusters
from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.options import SinkOptions

T = TypeVar("T")


def run_at(options: SinkOptions, action: Callable[[Cluster], Awaitable[T]]) -> T:
    """The outcome of something done at the cluster. `SinkError` for what the cluster refuses, too."""
    try:
        return clusters.run_at(options.bootstrap, options.properties, options.timeout_s, action)
    except CommandError as error:
        raise SinkError(str(error)) from None
