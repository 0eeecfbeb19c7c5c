"""The places of backups: a bucket of an object store (S3, Google, Azure; by obstore) or a folder.

Settings of a store are read from the environment by the library: `AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`
and so on. Every failure is an `ArchiveError` of one line that begins with the place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kwire.archive.errors import ArchiveError, Conflict
from kwire.base.doors import Files

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

PART_BYTES: Final = 8 * 1024 * 1024
"""What is larger is sent in parts of so many bytes, one after the other."""
_RETRIES: Final = 4
_RETRY_S: Final = 60
_CONNECT_S: Final = 10
_READ_S: Final = 60
_SCHEMES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss", "file")
_CREDENTIALS: Final = re.compile(
    "credential|/latest/api/token|/latest/meta-data|InvalidAccessKeyId|SignatureDoesNotMatch", re.I
)


class Place:
    """Where backups are. Objects have names with ``/``; ``put`` makes or replaces one as a whole."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._folder = _folder(url)
        with self._as_archive_errors(""):
            self._store = _opened(url, self._folder)

    def put(self, name: str, data: bytes | Iterator[bytes], *, new: bool = False) -> None:
        """Write an object. With ``new``, `Conflict` if it is there already. `ArchiveError`."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._as_archive_errors(name):
            try:
                obstore.put(
                    self._store,
                    name,
                    data,
                    mode="create" if new else "overwrite",
                    use_multipart=not isinstance(data, bytes),
                    chunk_size=PART_BYTES,
                    max_concurrency=1,
                )
            except (AlreadyExistsError, PreconditionError):
                raise Conflict(
                    f"{self.url}: another backup has written {name} meanwhile: run the command again"
                ) from None
            if self._folder is not None:
                _sync(self._folder, name)

    def read(self, name: str) -> bytes:
        """A small object. `ArchiveError`."""
        with self._as_archive_errors(name):
            return bytes(self._store.get(name).bytes())

    def chunks(self, name: str) -> Iterator[bytes]:
        """An object's bytes. `ArchiveError`."""
        with self._as_archive_errors(name):
            for chunk in self._store.get(name).stream(min_chunk_size=PART_BYTES):
                yield bytes(chunk)

    def has_whole(self, name: str, size: int) -> bool:
        """Whether an object is there with so many bytes. Of a folder, where a loss of power may have damaged what was
        not synced, this is never said. `ArchiveError`."""
        if self._folder is not None:
            return False
        with self._as_archive_errors(name):
            try:
                return self._store.head(name)["size"] == size
            except FileNotFoundError:
                return False

    def names(self, prefix: str) -> list[str]:
        """The objects below a prefix, sorted. `ArchiveError`."""
        with self._as_archive_errors(prefix):
            return sorted(each["path"] for part in self._store.list(prefix) for each in part)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects, also such as are gone already. `ArchiveError`."""
        with self._as_archive_errors(""):
            if self._folder is None:
                self._store.delete(list(names))
                return
            for name in names:
                try:
                    self._store.delete(name)
                except FileNotFoundError:
                    continue

    @contextmanager
    def _as_archive_errors(self, name: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        where = f"{self.url.rstrip('/')}/{name}" if name else self.url
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise ArchiveError(f"{self.url}: there is no such bucket") from None
            raise ArchiveError(f"{where}: there is no such object") from None
        except (BaseError, ValueError, PermissionError) as error:
            raise ArchiveError(_reason(self.url, where, error)) from None
        except OSError as error:
            raise ArchiveError(f"{error.filename or where}: {error.strerror or error}") from None


def _folder(url: str) -> str | None:
    """The path of a folder; None if it is an object store. `ArchiveError` for an unknown scheme."""
    scheme, colon, rest = url.partition("://")
    if not colon:
        return os.path.abspath(url)
    if scheme not in _SCHEMES:
        raise ArchiveError(f"{url}: not a folder, nor one of {', '.join(f'{each}://' for each in _SCHEMES)}")
    if not rest.strip("/"):
        raise ArchiveError(f"{url}: the bucket is missing")
    return os.path.abspath(rest) if scheme == "file" else None


def _opened(url: str, folder: str | None) -> ObjectStore:
    from obstore.store import LocalStore, from_url

    if folder is not None:
        return LocalStore(folder, mkdir=True)
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=_CONNECT_S),
        "read_timeout": timedelta(seconds=_READ_S),
        "timeout": timedelta(seconds=10 * _READ_S),
    }
    if any(os.environ.get(name, "").startswith("http://") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")):
        options["allow_http"] = True
    retry: RetryConfig = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_S)}
    store: Any = from_url(url, client_options=options, retry_config=retry)
    return store  # type: ignore[no-any-return]


def _reason(url: str, where: str, error: Exception) -> str:
    """One line without the library's details."""
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    text = str(error)
    if "NoSuchBucket" in text:
        return f"{url}: there is no such bucket"
    if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError) or _CREDENTIALS.search(text):
        return f"{where}: access denied: the store's credentials (AWS_ACCESS_KEY_ID ...) are missing or not accepted"
    first = text.partition("\n\n")[0].strip()
    return f"{where}: {' '.join(first.split())[:400]}"


def _sync(folder: str, name: str) -> None:
    """Let a file and the names on its way outlast a loss of power; the library does not. OSError."""
    files = Files()
    path = f"{folder}/{name}"
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    while path != folder:
        path = os.path.dirname(path)
        files.sync_dir(path)
