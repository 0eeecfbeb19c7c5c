"""JSON of strangers, within limits."""

from __future__ import annotations

import json
import math
from typing import Any

from kwire.schemas.errors import SchemaError
from kwire.schemas.limits import check_size


class HalfCharacter(ValueError):
    """A surrogate without the other one of its pair, which UTF-8 cannot write."""


def parse_json(text: str) -> Any:
    """The value of a text. `SchemaError` if it is no JSON, too long or nested too deeply."""
    check_size(text)
    try:
        return loaded(text)
    except RecursionError:
        raise SchemaError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None


def loaded(text: str | bytes) -> Any:
    """The value of a text that can be written again as it was read. ValueError also for what Python reads and no other
    parser does: NaN, numbers beyond those of a double (they would become Infinity), halves of surrogate pairs."""
    value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    try:
        compact(value).encode()
    except UnicodeEncodeError as error:
        raise HalfCharacter(f"U+{ord(error.object[error.start]):04X} is half a character") from None
    return value


def compact(value: Any) -> str:
    """JSON without spaces, with the characters of other languages as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _finite(digits: str) -> float:
    found = float(digits)
    if not math.isfinite(found):
        raise ValueError(f"{digits:.50} is too large a number")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
