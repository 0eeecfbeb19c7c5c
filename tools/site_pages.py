"""A hook of mkdocs (`mkdocs.yml`): pages that lie beside `docs/`, and links as they are in the repository.

The Markdown files have relative links, which work where the repository is browsed. On the site, a page beside `docs/`
(`COMPAT.md`) lies among the others, and what is no page, such as a folder of examples, is named without a link.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from harness.paths import ROOT

BESIDE: Final = ("CHANGELOG.md", "COMPAT.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages of the site that are in the root of the repository."""
_CODE_OR_LINK: Final = re.compile(
    r"(?P<code>^```.*?^```|(?P<ticks>`+).+?(?P=ticks))|\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)",
    re.M | re.S,
)
_TITLE: Final = re.compile(r"^# (.+)$", re.M)
_ITEM: Final = re.compile(r"(?:- |\d\. )")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages beside `docs/`."""
    for name in BESIDE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Turn links in the repository into links on the site."""
    uri = page.file.src_uri
    place = uri if uri in BESIDE else f"docs/{uri}"
    if uri.endswith("_PROPERTIES.md"):
        page.meta["hide"] = ["toc"]  # their tables need the room
    known = {file.src_uri for file in files}
    return in_site(with_wide_lists(markdown), place, known)


def in_site(markdown: str, place: str, known: set[str]) -> str:
    """The text of a page with links to ``known`` files of the site. ``place``: its path in the repository."""

    def replaced(found: re.Match[str]) -> str:
        target = found["target"]
        if found["code"] is not None or target.startswith(("#", "http:", "https:", "mailto:")):
            return found[0]
        path, mark, anchor = target.partition("#")
        in_repository = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
        on_site = in_repository.removeprefix("docs/")
        if on_site not in known:
            if not (ROOT / in_repository).exists():
                return found[0]  # mkdocs says so
            return found["text"]
        text = titles().get(in_repository, "") if found["text"].endswith(".md") else found["text"]
        here = posixpath.dirname(place.removeprefix("docs/"))
        return f"[{text or found['text']}]({posixpath.relpath(on_site, here or '.')}{mark}{anchor})"

    return _CODE_OR_LINK.sub(replaced, markdown)


@cache
def titles() -> dict[str, str]:
    """The titles of pages by their paths in the repository: on the site, a link does not show the name of a file."""
    paths = [*(ROOT / name for name in BESIDE), *(ROOT / "docs").rglob("*.md")]
    found = {path: _TITLE.search(path.read_text(encoding="utf-8")) for path in paths}
    return {path.relative_to(ROOT).as_posix(): match[1] for path, match in found.items() if match is not None}


def with_wide_lists(markdown: str) -> str:
    """The text with what belongs to an item of a list indented by four spaces, and an empty line after an item of
    several paragraphs, as Python-Markdown wants it. In the repository it begins below the item's text."""
    lines: list[str] = []
    width, in_fence, paragraphs = 0, False, False
    for line in markdown.split("\n"):
        item = _ITEM.match(line)
        indent = len(line) - len(line.lstrip())
        if item is not None and not in_fence:
            if paragraphs and lines[-1]:
                lines.append("")
            width, paragraphs = len(item[0]), False
        elif line and not indent and not in_fence:
            width, paragraphs = 0, False
        of_item = bool(width) and item is None and bool(line)
        fence = line.lstrip().startswith("```")
        paragraphs |= of_item and not lines[-1]
        if of_item and (indent == width or in_fence or fence):
            line = " " * (4 - width) + line
        in_fence ^= fence
        lines.append(line)
    return "\n".join(lines)
