"""`from_avro` and `to_avro`: columns of Avro in Confluent's wire format (a zero byte, the schema's id, the value).

The driver asks the registry for the schema of a subject, which gives the column its type; a Python process of an
executor asks for each id that it meets once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.payloads.columns import shape_of
from kwire.arrow.payloads.shapes import NoShape, Read
from kwire.base.extras import missing
from kwire.cli.connection.errors import CommandError
from kwire.cli.schemas.client import URL, RegistryClient
from kwire.cli.schemas.lookup import SchemaLookup
from kwire.schemas import AVRO, DecodeError, Schema, SchemaError, wire

if TYPE_CHECKING:
    from pyspark.sql import Column

FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
_TIMEOUT_S: Final = 30.0
_CERTIFICATES: Final = "ssl.truststore.certificates"
_CA: Final = "ssl.ca.location"

Properties = tuple[tuple[str, str], ...]

_lookups: dict[Properties, SchemaLookup] = {}
"""Of this process, by the registry's properties."""


def from_avro(data: Column | str, subject: str, registry: str | Mapping[str, str], *, mode: str = FAILFAST) -> Column:
    """The values of a binary column, as the latest schema of a subject has them; null stays null.

    ``registry``: a URL, or properties: `schema.registry.url`, `basic.auth.user.info` (``NAME:PASSWORD``), and
    `ssl.ca.location` (a file in PEM on the driver) or `ssl.truststore.certificates` (PEM). ``mode``: of what has no
    schema id or does not fit, ``FAILFAST`` fails the query, ``PERMISSIVE`` makes null. ValueError for a subject without
    an Avro schema that Spark's types can hold, or a registry that does not answer.
    """
    from pyspark.sql.functions import udf

    from kwire.spark.avro.types import spark_type

    if mode not in (FAILFAST, PERMISSIVE):
        raise ValueError(f"mode is {FAILFAST} or {PERMISSIVE}, not {mode}")
    properties = _properties(registry)
    id, schema = _latest(properties, subject)
    try:
        shape = shape_of(schema)
    except NoShape as error:
        raise ValueError(f"from_avro: the schema of {subject} has no type in Spark: {error}") from None
    return udf(_Decoding(properties, id, mode), spark_type(shape.field), useArrow=False)(data)


def to_avro(
    data: Column | str, subject: str, registry: str | Mapping[str, str], *, schema: str | None = None
) -> Column:
    """A column as Avro with the id of a subject's latest schema, or of ``schema``, which is registered under the
    subject if it is not there. ``registry``: as for `from_avro`. A row needs the fields that have no default; null
    stays null (a tombstone). ValueError as `from_avro`, and for a schema that the registry refuses."""
    from pyspark.sql.functions import udf
    from pyspark.sql.types import BinaryType

    properties = _properties(registry)
    id, found = _latest(properties, subject) if schema is None else _registered(properties, subject, schema)
    try:
        _encoder(found)
    except NoShape as error:
        raise ValueError(f"to_avro: the schema of {subject} has no type in Spark: {error}") from None
    return udf(_Encoding(properties, id), BinaryType(), useArrow=False)(data)


class _Decoding:
    """What executors run for a value. Pickled without what it finds there."""

    def __init__(self, properties: Properties, reader: int, mode: str) -> None:
        self._given = (properties, reader, mode)
        self._reads: dict[int, Read | str] = {}
        self._shape: Any = None

    def __reduce__(self) -> tuple[type[_Decoding], Any]:
        return _Decoding, self._given

    def __call__(self, payload: bytes | bytearray | None) -> Any:
        """The value of a payload. ValueError if it has none."""
        if payload is None:
            return None
        try:
            id, body = wire.split(bytes(payload))
            read = self._reads.get(id)
            if read is None:
                read = self._reads[id] = self._reader(id)
            if isinstance(read, str):
                raise DecodeError(read)
            return read(body)
        except (DecodeError, OverflowError) as error:
            if self._given[2] == PERMISSIVE:
                return None
            raise ValueError(f"from_avro: {error}") from None

    def _reader(self, id: int) -> Read | str:
        """What reads bodies of a schema, or why nothing does."""
        from kwire.spark.avro.types import python_values

        properties, reader, _ = self._given
        lookup = _lookup(properties)
        try:
            if self._shape is None:
                self._shape = shape_of(lookup.schema(reader))
            read = self._shape.read(lookup.schema(id))
        except (SchemaError, DecodeError) as error:
            return str(error)
        convert = python_values(self._shape.field)
        if convert is None:
            return read  # type: ignore[no-any-return]

        def read_and_convert(body: bytes) -> Any:
            value = read(body)
            return None if value is None else convert(value)

        return read_and_convert


class _Encoding:
    """What executors run for a row."""

    def __init__(self, properties: Properties, id: int) -> None:
        self._given = (properties, id)
        self._encode: Any = None

    def __reduce__(self) -> tuple[type[_Encoding], Any]:
        return _Encoding, self._given

    def __call__(self, value: Any) -> bytes | None:
        """The payload of a value. ValueError if it does not fit."""
        if value is None:
            return None
        properties, id = self._given
        if self._encode is None:
            self._encode = _encoder(_lookup(properties).schema(id))
        try:
            return wire.frame(id, self._encode(value))
        except (DecodeError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"to_avro: {error}") from None


def _encoder(schema: Schema) -> Any:
    from kwire.schemas.avro.schema import AvroSchema
    from kwire.spark.avro.encoding import plain_values

    assert isinstance(schema, AvroSchema)
    convert = plain_values(schema.root)
    return lambda value: schema.encode(convert(value))


def _properties(registry: str | Mapping[str, str]) -> Properties:
    """What a process needs to ask the registry. ValueError."""
    if (line := missing("registry")) is not None:
        raise ImportError(line)
    found = {URL: registry} if isinstance(registry, str) else dict(registry)
    if not found.get(URL):
        raise ValueError(f"registry: {URL} is missing")
    path = found.pop(_CA, None)
    if path is not None:
        try:
            found[_CERTIFICATES] = Path(path).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{_CA}: {path}: {getattr(error, 'strerror', None) or error}") from None
    return tuple(sorted(found.items()))


def _client(properties: Properties) -> RegistryClient:
    return RegistryClient(None, dict(properties), _TIMEOUT_S)


def _lookup(properties: Properties) -> SchemaLookup:
    found = _lookups.get(properties)
    if found is None:
        found = _lookups[properties] = SchemaLookup(_client(properties))
    return found


def _latest(properties: Properties, subject: str) -> tuple[int, Schema]:
    try:
        lookup = _lookup(properties)
        found = lookup.latest(subject)
        if found is None:
            raise ValueError(f"registry {lookup.url}: there is no subject {subject}")
        return found.id, _avro(lookup.schema(found.id), subject)
    except (CommandError, SchemaError) as error:
        raise ValueError(str(error)) from None


def _registered(properties: Properties, subject: str, text: str) -> tuple[int, Schema]:
    try:
        id = int(_client(properties).post("subjects", subject, "versions", body={"schema": text})["id"])
        return id, _avro(_lookup(properties).schema(id), subject)
    except (CommandError, SchemaError) as error:
        raise ValueError(str(error)) from None


def _avro(schema: Schema, subject: str) -> Schema:
    if schema.type != AVRO:
        raise ValueError(f"{subject} has a schema of {schema.type}, not of Avro")
    return schema
