"""Whether a value fits a schema, by the library jsonschema; nothing is fetched from anywhere."""

from __future__ import annotations

from typing import Any

from kwire.schemas.errors import DecodeError
from kwire.schemas.json_schema.kinds import Documents


def check_value(schema: Any, documents: Documents, value: Any) -> None:
    """`DecodeError` for a value that does not fit."""
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7

    resources = [(url, Resource.from_contents(each, DRAFT7)) for url, each in documents.others() if url]
    registry: Any = Registry().with_resources(resources)
    validator: Any = validator_for(schema, default=Draft7Validator)
    try:
        validator(schema, registry=registry).validate(value)
    except ValidationError as error:
        raise DecodeError(f"the value does not fit the schema, at {error.json_path}: {error.message[:200]}") from None
    except (Unresolvable, RecursionError) as error:
        raise DecodeError(f"the value cannot be checked: {error}") from None
