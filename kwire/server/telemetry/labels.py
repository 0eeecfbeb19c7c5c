"""Labels for the metrics of clients: attributes of the resource in OpenTelemetry's ``MetricsData``.

A message of Protocol Buffers may have a field of a message type several times; a reader merges them. So attributes are
added by appending a second ``resource`` to each ``ResourceMetrics``, and nothing that the client sent has to be parsed
further. ``MetricsData`` and ``ExportMetricsServiceRequest``, which OTLP/HTTP wants, have the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

_LENGTH_DELIMITED: Final = 2
_RESOURCE_METRICS: Final = 1 << 3 | _LENGTH_DELIMITED
"""`MetricsData.resource_metrics`, also `ResourceMetrics.resource`, `Resource.attributes`, `KeyValue.key` and
`AnyValue.string_value`: all are field 1."""
_VALUE: Final = 2 << 3 | _LENGTH_DELIMITED
"""`KeyValue.value`."""
_VARINT_BITS_MAX: Final = 63


def labelled(metrics: bytes, labels: Mapping[str, str]) -> bytes:
    """The metrics with these attributes for each resource. ValueError if they are no ``MetricsData``."""
    resource = _field(_RESOURCE_METRICS, b"".join(_attribute(name, value) for name, value in labels.items()))
    return b"".join(_field(_RESOURCE_METRICS, each + resource) for each in _resources(metrics))


def _resources(metrics: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(metrics):
        tag, position = _varint(metrics, position)
        if tag != _RESOURCE_METRICS:
            raise ValueError(f"a field that MetricsData does not have: tag {tag}")
        length, position = _varint(metrics, position)
        end = position + length
        if end > len(metrics):
            raise ValueError("a field is longer than the message")
        yield metrics[position:end]
        position = end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift <= _VARINT_BITS_MAX:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("a number that does not end")


def _attribute(name: str, value: str) -> bytes:
    text = _field(_RESOURCE_METRICS, value.encode("utf-8", "replace"))
    return _field(_RESOURCE_METRICS, _field(_RESOURCE_METRICS, name.encode()) + _field(_VALUE, text))


def _field(tag: int, content: bytes) -> bytes:
    length = len(content)
    head = bytearray((tag,))
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + content
