"""How a command reaches a running cluster, of kwire or of Apache Kafka: options and files, addresses, retries.

    from kwire.cli import connection

    connection.add_arguments(parser)
    async with connection.open_cluster(arguments) as cluster:
        response = await cluster.call(MetadataRequest(topics=None))

What lives elsewhere: sockets, TLS and logins (`kwire.cluster.connector`, `kwire.security.client`).
"""

from __future__ import annotations

from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.options import add_arguments, open_cluster

__all__ = ["CommandError", "add_arguments", "check", "open_cluster"]
