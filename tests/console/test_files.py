"""The page's files: browsers keep them until there are others."""

from __future__ import annotations

import re
from pathlib import Path

from harness.console.in_process import console
from kwire.console.app import STATIC
from kwire.console.files import Files

NOWHERE = "127.0.0.1:1"


async def test_all_that_the_page_names_is_served_and_kept() -> None:
    async with console(NOWHERE) as client:
        page = await client.get("/")
        assert page.headers["cache-control"] == "no-store"
        text = page.content.decode()
        named = re.findall(r'(?:href|src)="(/[^"]*)"', text)
        assert len(named) > 8
        for each in named:
            answer = await client.get(each)
            assert (answer.status, answer.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
            kind = answer.headers["content-type"].partition(";")[0]
            assert kind == {"js": "text/javascript", "css": "text/css"}[each.rpartition(".")[2]]
        older = named[0].replace(named[0].split("/")[2], "0123456789abcdef")
        answer = await client.get(older)
        assert (answer.status, answer.headers["cache-control"]) == (200, "no-cache")
        assert (await client.get("/static/0123456789abcdef/index.html")).status == 404
        assert '<meta name="first-cluster" content="c0">' in text


def test_another_content_has_another_address(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("VERSION CLUSTER")
    (tmp_path / "a.js").write_text("1")
    first = Files(tmp_path)
    (tmp_path / "a.js").write_text("2")
    second = Files(tmp_path)
    assert first.version != second.version
    assert second.page('<"&').decode() == f"{second.version} &lt;&quot;&amp;"


def test_scripts_import_only_what_is_beside_them() -> None:
    """An absolute address would have no version, and nothing would be there."""
    for script in STATIC.glob("app/*.js"):
        found = re.findall(r'(?:^import\b[^"]*|\bimport\()"([^"]+)"', script.read_text(encoding="utf-8"), re.M)
        for each in found:
            assert each.startswith("."), (script.name, each)
            assert (script.parent / each).is_file(), (script.name, each)
