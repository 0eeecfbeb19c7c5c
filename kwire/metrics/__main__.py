"""``python -m kwire.metrics``: a line of JSON with settings comes in, one with the URL (null if it only pushes) or an
error goes out.

The process ends when its standard input does: then whoever started it has ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

from kwire.base.addresses import parse_address
from kwire.metrics.names import NAMINGS
from kwire.metrics.server import MetricsServer, Settings


def main() -> int:
    """Serve until the standard input ends."""
    _give_way()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    arguments = json.loads(sys.stdin.buffer.readline())
    listen, otel = arguments.pop("listen"), arguments.pop("otel")
    url = None
    try:
        if listen:
            server = MetricsServer(parse_address(listen), Settings(**arguments))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = server.url
        if otel:
            _push(otel, arguments["sockets"], arguments["names"])
    except (OSError, ValueError, OverflowError) as error:
        print(json.dumps({"error": getattr(error, "strerror", None) or str(error)}), flush=True)
        return 1
    print(json.dumps({"url": url}), flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


def _push(settings: Mapping[str, Any], sockets: Mapping[str, str], names: str) -> None:
    from kwire.metrics.otel import Pusher  # its libraries take longer to import than everything else here

    Pusher(settings["endpoint"], settings["interval_ms"] / 1000, sockets, NAMINGS[names]).start()


def _give_way() -> None:
    """Run when brokers and their clients leave time. A scrape of a machine without any spare time is still answered."""
    os.nice(10)
    if hasattr(os, "SCHED_BATCH"):  # Linux: those who wake up, as brokers do, run at once
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


if __name__ == "__main__":
    sys.exit(main())
