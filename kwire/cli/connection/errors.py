"""Failures of commands: one line that says what is wrong."""

from __future__ import annotations

from kwire.base.errors import ErrorCode


class CommandError(Exception):
    """The cluster cannot be reached or refuses a request, or what is asked for is not there. The message is one line
    for the user. ``code``: the error code of a response, 0 if there was none."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class UsageError(Exception):
    """The command line is wrong, in a way that its parser cannot see: status 2. The message is one line."""


class Unreachable(CommandError):
    """No broker answers at the addresses, or the one that does refuses this client."""


class NoAnswer(CommandError):
    """A broker has not answered in time."""


_WORDS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic exists already",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this login has no right to the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this login has no right to the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this login has no right to do that to the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this login has no right to the transactional id",
}
"""Words for errors for which brokers have none, or (Apache Kafka) the fields of a request."""


def describe_error(code: int, message: str | None = None) -> str:
    """An error code in words: those of the broker, unless they say less than ours."""
    try:
        error = ErrorCode(code)
    except ValueError:
        return message or f"error {code}"
    ours = _WORDS.get(error)
    words = ours if error.name.endswith("AUTHORIZATION_FAILED") else message or ours
    return f"{words.rstrip('.')} ({error.name})" if words else error.name


def check(code: int, what: str, message: str | None = None) -> None:
    """Raise `CommandError` unless the code is 0. ``what``: what the request was about, such as ``topic orders``."""
    if code:
        raise CommandError(f"{what}: {describe_error(code, message)}", code)
