"""Who may ask: names and passwords of a file, by basic authentication.

A line has a name, a colon and a password, as in the files that Confluent's registry takes; roles behind a comma are
not used.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHALLENGE: Final = 'Basic realm="SchemaRegistry"'


class UsersUnreadable(Exception):
    """The file cannot be used. One line."""


def read_users(path: str) -> dict[str, str]:
    """Passwords by names. `UsersUnreadable`."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsersUnreadable(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    users = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, colon, rest = text.partition(":")
        password = rest.partition(",")[0].strip()
        if not colon or not name.strip() or not password:
            raise UsersUnreadable(f"{path}: line {number} is not NAME: PASSWORD")
        users[name.strip()] = password
    if not users:
        raise UsersUnreadable(f"{path}: there is no user in it")
    return users


def is_allowed(users: Mapping[str, str], authorization: str | None) -> bool:
    """Whether a header has the name and password of a user. It takes as long for a wrong name as for a wrong
    password."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        name, _, password = b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:
        return False
    expected = users.get(name)
    same = hmac.compare_digest(password.encode(), (expected or "").encode())
    return same and expected is not None
