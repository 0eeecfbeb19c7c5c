"""The helper process of the log cleaner: ``python -m kwire.log.compaction.worker``, started by `compaction.helper`."""

from __future__ import annotations

from typing import Final

from kwire.base.doors import Files
from kwire.base.processes import serve
from kwire.log.compaction.job import CleaningJob

YIELDS_S: Final = 10.0
"""Nobody waits for it, but it must go on on a busy machine."""


def main() -> None:
    """Serve the cleaner's requests until it closes the pipe."""
    serve(CleaningJob(Files()).run, yields_s=YIELDS_S)


if __name__ == "__main__":
    main()
