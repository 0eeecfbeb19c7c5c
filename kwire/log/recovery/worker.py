"""The helper process of a start after a crash: ``python -m kwire.log.recovery.worker``, started by `recovery_helpers`.

Recovers whole partitions on disk, as the broker would itself, and says what it found; the broker then opens them as
logs that were closed in order.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kwire.base.doors import Doors
from kwire.base.processes import serve
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.recovery.recovery import LogRecovery

Message = dict[str, Any]


def recover(request: Message) -> Generator[int, None, Message]:
    """Recover the partitions of a request, one after the other. What cannot be is left to the broker."""
    answers: list[Message | None] = []
    for each in request["partitions"]:
        try:
            answers.append(recover_one(each))
        except OSError:  # the broker meets it again, and knows what to do with a disk that fails
            answers.append(None)
        yield each["bytes"]
    return {"partitions": answers}


def recover_one(request: Message) -> Message:
    """One partition: all passes, and everything that they found out on disk. OSError."""
    env = LogEnvironment.create(Doors(processes=None))
    env.producer_expiration_ms = request["producer_expiration_ms"]
    config: dict[str, Any] = dict(request["config"])
    config["cleanup_policy"] = tuple(config["cleanup_policy"])
    try:
        opened = LogRecovery(
            env,
            request["directory"],
            request["name"],
            LogConfig(**config),
            clean=False,
            recovery_point=request["recovery_point"],
            log_start_offset=request["log_start_offset"],
            cleaned_to=request["cleaned_to"],
        ).run()
        for segment in opened.segments:
            if segment.index.loaded or segment.time_index.loaded:
                segment.note_max_timestamp()
                segment.flush_indexes()
        opened.producers.map_end_offset = opened.log_end_offset
        opened.producers.take_snapshot()
    finally:
        env.cache.close_all()
    return {
        "complaints": opened.complaints,
        "recovery_point": opened.recovery_point,
        "log_start_offset": opened.log_start_offset,
        "log_end_offset": opened.log_end_offset,
        "verified": [segment.base_offset for segment in opened.segments if segment.size and not segment.unverified],
        "bad": {str(segment.base_offset): [list(damage) for damage in segment.bad] for segment in opened.segments},
        "rebuilt": [segment.base_offset for segment in opened.rebuilt],
    }


def main() -> None:
    serve(recover, niceness=0)


if __name__ == "__main__":
    main()
