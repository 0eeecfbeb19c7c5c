"""`Files`: the page's own files, which are read once and served from memory.

Their addresses have a hash of all of them, so that a browser keeps them without asking again, and has the new ones as
soon as another version of the console serves them.
"""

from __future__ import annotations

import hashlib
import html
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

PREFIX: Final = "/static/"
_TYPES: Final = {".css": "text/css", ".html": "text/html", ".js": "text/javascript"}
_HASH_CHARACTERS: Final = 16
_FOR_EVER: Final = "public, max-age=31536000, immutable"


class Files:
    """The files of a folder, whose ``index.html`` is the page. In it ``VERSION`` stands for the hash, and ``CLUSTER``
    for the name of the cluster that is shown first."""

    def __init__(self, folder: Path) -> None:
        found = sorted(path for path in folder.rglob("*") if path.suffix in _TYPES)
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        digest = hashlib.sha256()
        for name, content in self._files.items():
            digest.update(b"%d %s %d " % (len(name), name.encode(), len(content)) + content)
        self.version = digest.hexdigest()[:_HASH_CHARACTERS]
        self._page = self._files.pop("index.html").decode().replace("VERSION", self.version)

    def page(self, cluster: str) -> bytes:
        """The page. ``cluster``: what it shows first; empty if it is to ask."""
        return self._page.replace("CLUSTER", html.escape(cluster)).encode("utf-8", "replace")

    async def serve(self, request: Request) -> Response:
        """A file. A page of an older version may still ask for one under its own address."""
        version, name = request.path_params["version"], request.path_params["name"]
        if name not in self._files:
            raise HTTPException(404)
        caching = _FOR_EVER if version == self.version else "no-cache"
        media_type = _TYPES[Path(name).suffix]
        return Response(self._files[name], media_type=media_type, headers={"cache-control": caching})
