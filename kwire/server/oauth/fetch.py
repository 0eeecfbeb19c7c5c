"""An issuer's keys by HTTP(S) or from a file, within limits. It blocks: call it on a thread (`Executor.run_apart`).

What lives elsewhere: HTTP (`kwire.base.http`), which URLs are allowed (`kwire.security.oauth.settings`), when they are
fetched (`keys`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from kwire.base.http import SIZE_MAX, HttpError, request
from kwire.security.oauth.settings import file_path

if TYPE_CHECKING:
    from ssl import SSLContext

    from kwire.base.doors import Files


class FetchError(Exception):
    """The document is not to be had. One line."""


def fetch(url: str, context: SSLContext | None, files: Files, monotonic: Callable[[], float]) -> bytes:
    """The document at a URL. ``context``: how a server's certificate is checked. `FetchError`."""
    path = file_path(url)
    if path is not None:
        return _read_file(path, files)
    try:
        response = request(url, context, monotonic, {"Accept": "application/json"})
    except HttpError as error:
        raise FetchError(str(error)) from None
    if response.status != HTTPStatus.OK:
        raise FetchError(f"HTTP status {response.status}")
    return response.body


def _read_file(path: str, files: Files) -> bytes:
    try:
        return files.read_regular(path, SIZE_MAX)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise FetchError(f"the file has more than {SIZE_MAX} bytes") from None
        raise FetchError(error.strerror or str(error)) from None
    except ValueError:  # a zero byte in the path
        raise FetchError("not the path of a file") from None
