"""Mutants of the compatibility of Avro schemas, which the comparison with Java must notice (`campaigns.schemas`)."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from campaigns.mutants.mutant import Mutant
from campaigns.schemas import avro_compatibility
from kwire.schemas.avro import compatibility


def _shorter_integers() -> Any:
    return patch.dict(compatibility._PROMOTED, {"int": ("long",)})


def _no_aliases() -> Any:
    return patch.object(compatibility, "_written_field", lambda field, writer: writer.by_name.get(field.name))


def _enumerations_without_defaults() -> Any:
    symbols = compatibility._symbols

    def strict(reader: Any, writer: Any, path: str) -> Any:
        default, reader.default = reader.default, None
        try:
            return symbols(reader, writer, path)
        finally:
            reader.default = default

    return patch.object(compatibility, "_symbols", strict)


MUTANTS: dict[str, Mutant] = {
    "shorter-integers": Mutant("int reads long", _shorter_integers, avro_compatibility.run_seeds, 4),
    "no-aliases": Mutant("aliases of fields do not count", _no_aliases, avro_compatibility.run_seeds, 4),
    "enum-defaults": Mutant(
        "the default of an enum does not count", _enumerations_without_defaults, avro_compatibility.run_seeds, 4
    ),
}
