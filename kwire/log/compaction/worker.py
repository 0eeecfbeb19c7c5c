"""The helper process of the log cleaner: ``python -m kwire.log.compaction.worker``, started by `compaction.helper`."""

from __future__ import annotations

from kwire.base.doors import Files
from kwire.base.processes.helpers import serve
from kwire.log.compaction.job import CleaningJob


def main() -> None:
    """Serve the cleaner's requests until it closes the pipe."""
    serve(CleaningJob(Files()).run, yields=True)


if __name__ == "__main__":
    main()
