"""The ordinary Fetch request in bytes, of a consumer that names at most one partition, and its response.

Both are read and packed at fixed positions, without message objects. Versions from 13 on name the topic by id, 12 by
name in compact fields, 4 to 11 by name in fields of fixed width. What lives elsewhere: what is done with the request
(`fetch.fast_path`), and every other form of it (`fetch.handler`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.file_range import FileRange
from kwire.codec.primitives import varint
from kwire.handlers.data.fetch.sessions import FINAL_EPOCH, NO_SESSION

if TYPE_CHECKING:
    from kwire.log.common.append_info import FetchedData
    from kwire.log.partition.partition_log import PartitionLog

FIRST_WITHOUT_REPLICA: Final = 15
FIRST_BY_ID: Final = 13
FIRST_COMPACT: Final = 12
FIRST_WITH_ANY_REPLICA: Final = 11
_FIRST_WITH_EPOCH: Final = 9
_FIRST_WITH_SESSION: Final = 7
_FIRST_WITH_LOG_START: Final = 5

_ONE: Final = 2
"""A compact array of one element."""
_COMMITTED: Final = 1
_NAME_MAX: Final = 126
# Maximum wait, minimum bytes, maximum bytes, isolation level, session id and epoch; before version 15 after a replica.
_read_compact = Struct(">iiibiiB").unpack_from  # ... topics
_COMPACT_SIZE: Final = 22
_read_compact_partition = Struct(">BiiqiqiBBB").unpack_from
# ^ partitions, index, leader epoch, offset, epoch of the last record, log start, maximum bytes, tags, tags, forgotten
_COMPACT_PARTITION_SIZE: Final = 36
_WIDE_HEADS: Final = {
    **dict.fromkeys((4, 5, 6), Struct(">iiiibi")),  # replica, as above without the session, topics
    **dict.fromkeys((7, 8, 9, 10, 11), Struct(">iiiibiii")),
}
_WIDE_PARTITIONS: Final = {
    4: Struct(">iiqi"),  # partitions, index, offset, maximum bytes
    **dict.fromkeys((5, 6, 7, 8), Struct(">iiqqi")),  # with the log start
    **dict.fromkeys((9, 10, 11), Struct(">iiiqqi")),  # with the leader epoch
}
_NOTHING_ELSE: Final = {
    **dict.fromkeys((4, 5, 6), b""),
    **dict.fromkeys((7, 8, 9, 10), bytes(4)),  # no forgotten topics
    11: bytes(6),  # no forgotten topics, no rack
}
_read_length = Struct(">h").unpack_from
_read_replica = Struct(">i").unpack_from
_read_end = Struct(">ih").unpack_from

# Size, correlation id, no tags, throttle time, no error, session, topics
_pack_compact_head = Struct(">iixixxiB").pack
# partitions, index, no error, high watermark, last stable offset, log start, no aborted transactions, no other replica
_pack_compact_partition = Struct(">Bi2xqqqBi").pack
_COMPACT_FIXED: Final = Struct(">ixixxiB").size + Struct(">Bi2xqqqBi").size + 3
_TAGS: Final = b"\0\0\0"  # of the partition, the topic and the response
# Size, correlation id, throttle time, [error, session,] topics, length of the name
_WIDE_RESPONSE_HEADS: Final = {
    **dict.fromkeys((4, 5, 6), Struct(">iiiih")),
    **dict.fromkeys((7, 8, 9, 10, 11), Struct(">iii2xiih")),
}
# partitions, index, no error, high watermark, last stable offset, [log start,] aborted transactions, [no other
# replica,] size of the records
_WIDE_RESPONSES: Final = {
    4: Struct(">ii2xqqii"),
    **dict.fromkeys((5, 6, 7, 8, 9, 10), Struct(">ii2xqqqii")),
    11: Struct(">ii2xqqqiii"),
}


class Asked(NamedTuple):
    """An ordinary request. ``topic`` is the name or, from version 13 on, the id; None if the request names no
    partition: it continues a session as it is. ``session_epoch`` is -1 without a session."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topic: bytes | None
    partition: int = -1
    leader_epoch: int = -1
    offset: int = -1
    log_start: int = -1
    partition_max_bytes: int = 0

    @property
    def committed_only(self) -> bool:
        """Whether only records of committed transactions are wanted."""
        return self.isolation_level == _COMMITTED


_new_tuple = tuple.__new__  # a NamedTuple without the call of its constructor


def request(frame: memoryview, position: int, version: int) -> Asked | None:
    """The request whose body begins at ``position``, if it is an ordinary one. struct.error, IndexError if the frame
    ends early."""
    return (_compact_request if version >= FIRST_COMPACT else _wide_request)(frame, position, version)


def response(
    asked: Asked, version: int, correlation_id: int, log: PartitionLog, found: FetchedData
) -> tuple[list[Any], int]:
    """The parts of the frame of a response with what was read, and the size of the frame."""
    pack = _compact_response if version >= FIRST_COMPACT else _wide_response
    return pack(asked, version, correlation_id, log, found)


def _compact_response(
    asked: Asked, version: int, correlation_id: int, log: PartitionLog, found: FetchedData
) -> tuple[list[Any], int]:
    assert asked.topic is not None
    topic = asked.topic if version >= FIRST_BY_ID else bytes((len(asked.topic) + 1,)) + asked.topic
    length = varint(found.size + 1)
    total = _COMPACT_FIXED + len(topic) + len(length) + found.size
    head = _pack_compact_head(total, correlation_id, 0, asked.session_id, _ONE)
    offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
    tail = _pack_compact_partition(_ONE, asked.partition, *offsets, 1 if asked.committed_only else 0, -1)
    return _parts((head, topic, tail, length), found.records, _TAGS), total + 4


def _wide_response(
    asked: Asked, version: int, correlation_id: int, log: PartitionLog, found: FetchedData
) -> tuple[list[Any], int]:
    assert asked.topic is not None
    values = [1, asked.partition, log.high_watermark, log.last_stable_offset]
    if version >= _FIRST_WITH_LOG_START:
        values.append(log.log_start_offset)
    values.append(0 if asked.committed_only else -1)
    if version >= FIRST_WITH_ANY_REPLICA:
        values.append(-1)
    head, tail = _WIDE_RESPONSE_HEADS[version], _WIDE_RESPONSES[version]
    total = head.size - 4 + len(asked.topic) + tail.size + found.size
    session = (asked.session_id,) if version >= _FIRST_WITH_SESSION else ()
    first = head.pack(total, correlation_id, 0, *session, 1, len(asked.topic))
    return _parts((first, asked.topic, tail.pack(*values, found.size)), found.records, b""), total + 4


def _compact_request(frame: memoryview, position: int, version: int) -> Asked | None:
    """What an ordinary request of version 12 or later has; None for any other. struct.error, IndexError."""
    if version < FIRST_WITHOUT_REPLICA:
        if _read_replica(frame, position)[0] != -1:
            return None  # a follower
        position += 4
    max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, topics = _read_compact(frame, position)
    position += _COMPACT_SIZE
    if topics == 1 and frame[position] == 1:
        asked, position = Asked(max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, None), position + 1
    elif topics == _ONE:
        end = position + (16 if version >= FIRST_BY_ID else frame[position])
        topic = bytes(frame[position if version >= FIRST_BY_ID else position + 1 : end])
        partition = _read_compact_partition(frame, end)
        partitions, index, leader_epoch, offset, last_epoch, log_start, most, tags, topic_tags, forgotten = partition
        if partitions != _ONE or last_epoch >= 0 or tags or topic_tags or forgotten != 1 or len(topic) > _NAME_MAX:
            return None
        head = max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch
        asked = _new_tuple(Asked, (*head, topic, index, leader_epoch, offset, log_start, most))
        position = end + _COMPACT_PARTITION_SIZE
    else:
        return None
    rack = frame[position]  # its size and one; without a replica selector it only has to be valid
    rest = bytes(frame[position + 1 :])
    return asked if rack < 128 and len(rest) == rack and not rest[-1] and rest.isascii() else None


def _wide_request(frame: memoryview, position: int, version: int) -> Asked | None:
    """What an ordinary request of version 4 to 11 has; None for any other. struct.error."""
    head = _WIDE_HEADS[version]
    replica, max_wait_ms, min_bytes, max_bytes, isolation, *session, topics = head.unpack_from(frame, position)
    position += head.size
    session_id, epoch = session or (NO_SESSION, FINAL_EPOCH)
    if topics == 1:
        end = position + 2 + _read_length(frame, position)[0]
        name = bytes(frame[position + 2 : end])
        partition = _WIDE_PARTITIONS[version]
        partitions, index, *values = partition.unpack_from(frame, end)
        position = end + partition.size
        leader_epoch = values.pop(0) if version >= _FIRST_WITH_EPOCH else -1
        log_start = values[1] if version >= _FIRST_WITH_LOG_START else -1
        rest = (isolation, session_id, epoch, name, index, leader_epoch, values[0], log_start, values[-1])
        asked = Asked(max_wait_ms, min_bytes, max_bytes, *rest)
        if partitions != 1 or not name:
            return None
    else:
        asked = Asked(max_wait_ms, min_bytes, max_bytes, isolation, session_id, epoch, None)
    if replica != -1 or topics not in (0, 1):
        return None
    return (
        asked if bytes(frame[position:]) == _NOTHING_ELSE[version] or _only_a_rack(frame, position, version) else None
    )


def _only_a_rack(frame: memoryview, position: int, version: int) -> bool:
    """Whether nothing follows but a valid rack (version 11). struct.error."""
    if version < FIRST_WITH_ANY_REPLICA:
        return False
    forgotten, length = _read_end(frame, position)
    rack = bytes(frame[position + 6 :])
    return not forgotten and len(rack) == length and rack.isascii()


def _parts(head: tuple[bytes, ...], records: FileRange | bytes, tail: bytes) -> list[Any]:
    """The frame of a response in the parts in which it is sent."""
    if isinstance(records, FileRange):
        return [b"".join(head), records, tail] if tail else [b"".join(head), records]
    return [b"".join((*head, records, tail))]
