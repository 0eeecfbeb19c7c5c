"""The helper process that compresses batches anew: ``python -m kwire.log.partition.recompression_worker``, started by
`recompression`."""

from __future__ import annotations

from collections.abc import Generator

from kwire.base.doors import Files
from kwire.base.errors import KafkaError, as_value
from kwire.base.processes.helpers import serve, shared_area
from kwire.log.partition.recompression import Recompress, recompressed, take_area, write_area


def work(request: Recompress) -> Generator[int, None, int | KafkaError]:
    """Carry out a request. OSError."""
    files, area = Files(), shared_area()
    records = take_area(files, area, request.size)
    try:
        result = recompressed(memoryview(records), request.config, request.name, request.now_ms)
    except KafkaError as error:
        return as_value(error)  # it would keep what the batch was unpacked to until the next one comes
    write_area(files, area, result)
    yield request.size
    return len(result)


def main() -> None:
    """Serve the broker's requests until it closes the pipe."""
    serve(work, yields=True)


if __name__ == "__main__":
    main()
