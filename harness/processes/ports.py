"""Ports for the servers of tests: no two calls choose the same one, in one process or in several.

What lives elsewhere: which ports come into question (`kwire.base.free_ports`). A server that may bind to port 0 and
say which port that was needs nothing of this.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import random
import tempfile
from pathlib import Path

from kwire.base.free_ports import ephemeral_ports, is_free, server_ports


def free_port(counter: Path | None = None) -> int:
    """A free TCP port that the kernel gives to no outgoing connection and that no other caller gets.

    All test processes of a user count through the same ports: ``counter`` is the file with the last one chosen, in the
    folder of temporary files unless it is given. A port comes again only after all others. OSError if none is free.
    """
    ports = server_ports(ephemeral_ports())
    with open(counter or Path(tempfile.gettempdir()) / f"kwire-ports-{os.getuid()}", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
        file.seek(0)
        text = file.read()
        known = text.isdecimal() and int(text) in ports
        start = ports.index(int(text)) + 1 if known else random.randrange(len(ports))
        for port in itertools.chain(ports[start:], ports[:start]):
            if is_free(port):
                file.truncate(0)
                file.write(str(port))
                return port
    raise OSError(errno.EADDRINUSE, f"no port from {ports.start} to {ports.stop - 1} is free")
