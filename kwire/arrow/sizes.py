"""The sizes of records, the only thing about them that must be found one after the other. Pure."""

from __future__ import annotations

from array import array
from typing import Final

from kwire.codec.records import InvalidRecords
from kwire.codec.records.varint import decode_varint

_RUN: Final = 512
"""So many records of one size are looked for at once."""


def sizes(body: bytes, count: int) -> array[int]:
    """The bytes that each of ``count`` records takes, its length included; they must fill the body. `InvalidRecords`.

    One loop without calls, because it runs for each record. Producers often write many records of one size: when one
    is as long as the last, the first bytes of those that would follow are compared in C."""
    found = array("i")
    add, extend = found.append, found.extend
    position = last = 0
    left = count
    try:
        while left > 0:
            low = body[position]
            high = 0
            if low < 128:
                size = (low >> 1) + 1
            elif (high := body[position + 1]) < 128:
                size = (high << 6) + (low >> 1) - 62
            else:
                size = _long(body, position)
            if size == last and high < 128:
                run = body[position : position + _RUN * size : size]
                same = min(left, len(run) - len(run.lstrip(run[:1])))
                if low > 127:
                    run = body[position + 1 : position + _RUN * size : size]
                    same = min(same, len(run) - len(run.lstrip(run[:1])))
                extend(array("i", (size,)) * same)
                position += same * size
                left -= same
            else:
                last = size
                add(size)
                position += size
                left -= 1
    except IndexError:
        raise InvalidRecords("a record goes beyond the end of its batch") from None
    if position != len(body):
        raise InvalidRecords(f"{count} records take {position} bytes of {len(body)}")
    return found


def _long(body: bytes, position: int) -> int:
    """The size of the record at a position whose length takes three bytes or more."""
    length, start = decode_varint(body, position)
    if not 0 < length <= len(body) - start:
        raise IndexError
    return start - position + length
