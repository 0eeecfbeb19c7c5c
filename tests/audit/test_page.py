"""The page: whole, and safe whatever records hold."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from harness.auditing.audits import Audits, Record, Topics

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&</pre>\x1b[31m\u202e"
_FORBIDDEN = {"script", "img", "iframe", "link", "object", "embed", "form", "base"}
_VOID = {"meta"}


class _Page(HTMLParser):
    """Which elements are open, and what must not be there."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in _FORBIDDEN
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("src", "href"), value
        if tag not in _VOID and not (self.get_starttag_text() or "").endswith("/>") and tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Nothing is open then."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_records_hold_is_text(audit: Audits, topics: Topics, tmp_path: Path) -> None:
    source = [Record(f"{HOSTILE}{number}".encode(), HOSTILE.encode()) for number in range(9)]
    copy = [*source[:4], Record(b"\xff\xfe\0", HOSTILE.encode()), *source[6:], source[0]]
    report = tmp_path / "report.html"
    found = audit(topics.make(source), topics.make(copy), "--html", report, "--producers")
    assert found.faults == {"changed": 1, "duplicate": 1, "missing": 1}
    page = _Page()
    page.feed(report.read_text())
    assert page.open == []
    assert "<script>alert(1)</script>" in page.text  # as text
    assert "base64://4A" in page.text
    assert "\\x1b[31m\\u202e" in page.text
    for word in ("faults found", "By window", "By partition", "Keys with most faults", "Examples", "Producers"):
        assert word in page.text


def test_a_terminal_obeys_no_record(audit: Audits, topics: Topics, tmp_path: Path) -> None:
    from kwire.audit.reports.text import printable

    assert printable("a\x1b[2J\nb\u202e") == "a\\x1b[2J\\nb\\u202e"
