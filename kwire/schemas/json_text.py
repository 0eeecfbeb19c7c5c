"""JSON of strangers, within limits."""

from __future__ import annotations

import json
from typing import Any

from kwire.schemas.errors import SchemaError
from kwire.schemas.limits import check_size


def parse_json(text: str) -> Any:
    """The value of a text. `SchemaError` if it is no JSON, too long or nested too deeply."""
    check_size(text)
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise SchemaError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None


def compact(value: Any) -> str:
    """JSON without spaces, with the characters of other languages as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
