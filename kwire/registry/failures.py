"""`Refusal`: what a request gets in place of an answer, with Confluent's codes and texts."""

from __future__ import annotations

from typing import Final

_VERSIONS: Final = 'Allowed values are between [1, 2^31-1] and the string "latest"'
_LEVELS: Final = (
    "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
    "forward_transitive, and full_transitive"
)
_MODES: Final = "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD"


class Refusal(Exception):
    """A request is refused. ``status`` is HTTP's, ``code`` Confluent's ``error_code``."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> dict[str, object]:
        """The response's JSON."""
        return {"error_code": self.code, "message": self.message}


def no_subject(subject: str) -> Refusal:
    """The subject does not exist, or is deleted."""
    return Refusal(404, 40401, f"Subject '{subject}' not found.")


def no_version(version: int) -> Refusal:
    """The subject does not have this version."""
    return Refusal(404, 40402, f"Version {version} not found.")


def no_schema(id: int | None = None) -> Refusal:
    """There is no schema with this id, or (without one) no such schema under the subject."""
    return Refusal(404, 40403, "Schema not found" if id is None else f"Schema {id} not found")


def subject_deleted(subject: str) -> Refusal:
    """The subject has been deleted softly before."""
    return Refusal(404, 40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_deleted(subject: str) -> Refusal:
    """A subject has to be deleted softly before it is deleted permanently."""
    return Refusal(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_deleted(subject: str, version: int) -> Refusal:
    """The version has been deleted softly before."""
    message = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return Refusal(404, 40406, message)


def version_not_deleted(subject: str, version: int) -> Refusal:
    """A version has to be deleted softly before it is deleted permanently."""
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return Refusal(404, 40407, message)


def no_level(subject: str) -> Refusal:
    """The subject has no configuration of its own."""
    return Refusal(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> Refusal:
    """The subject has no mode of its own."""
    return Refusal(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(message: str) -> Refusal:
    """The schema may not follow those before it."""
    return Refusal(409, 409, message)


def invalid_schema(message: str) -> Refusal:
    """The text is no schema, goes beyond the limits, or refers to what does not exist."""
    return Refusal(422, 42201, message)


def invalid_field(name: str) -> Refusal:
    """A field of the body has a value of another type."""
    return Refusal(400, 400, f"The field {name:.50} has a value of a wrong type")


def invalid_version(text: str) -> Refusal:
    """What stands in the place of a version is none."""
    return Refusal(422, 42202, f"The specified version '{text}' is not a valid version id. {_VERSIONS}")


def invalid_level() -> Refusal:
    """There is no such level of compatibility."""
    return Refusal(422, 42203, _LEVELS)


def invalid_mode() -> Refusal:
    """There is no such mode."""
    return Refusal(422, 42204, _MODES)


def not_permitted(message: str) -> Refusal:
    """The mode forbids it."""
    return Refusal(422, 42205, message)


def is_referenced(subject: str, version: int) -> Refusal:
    """Other schemas refer to the version."""
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return Refusal(422, 42206, f"One or more references exist to the schema {key}.")


def id_taken(id: int) -> Refusal:
    """The id of an import belongs to another schema."""
    return Refusal(422, 42207, f"Overwrite new schema with id {id} is not permitted.")


def invalid_subject(subject: str) -> Refusal:
    """The name is no subject."""
    return Refusal(422, 42208, f"The specified subject '{subject}' is not a valid.")


def too_large(message: str) -> Refusal:
    """The schema is larger than the topic takes."""
    return Refusal(422, 42209, message)


def store_failed(message: str) -> Refusal:
    """The cluster does not take or give records."""
    return Refusal(500, 50001, message)


def timed_out(message: str) -> Refusal:
    """Whether a change is written is not known."""
    return Refusal(500, 50002, message)


def not_forwarded(message: str) -> Refusal:
    """The leader does not answer."""
    return Refusal(500, 50003, message)


def no_leader(message: str) -> Refusal:
    """No instance leads at the moment."""
    return Refusal(500, 50004, message)
