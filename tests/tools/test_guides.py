"""Each page with commands is run by a test, which compares what they print with what the page shows; the others have a
reason. The tests themselves are in `compat_tests`: they need brokers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.paths import ROOT
from tests.tools.test_documented_commands import commands

RUN = {
    "README.md": "compat_tests/documents/test_documents.py",
    "docs/index.md": "compat_tests/documents/test_documents.py",
    "docs/ACCESS_CONTROL.md": "compat_tests/clients/security/test_access_guide.py",
    "docs/ADOPTING.md": "compat_tests/documents/test_guides_of_brokers.py",
    "docs/ARCHIVE.md": "compat_tests/comparisons/cli/test_archive_guide.py",
    "docs/AUDIT.md": "compat_tests/comparisons/cli/test_audit_guide.py",
    "docs/BACKUP.md": "compat_tests/campaigns/archive/test_backups.py",
    "docs/CLUSTER.md": "compat_tests/documents/test_guides_of_brokers.py",
    "docs/COMMAND_LINE.md": "compat_tests/documents/test_guides.py",
    "docs/CONSOLE.md": "compat_tests/documents/test_guides.py",
    "docs/EVERYDAY_TASKS.md": "compat_tests/comparisons/cli/test_everyday_tasks.py",
    "docs/METRICS.md": "compat_tests/documents/test_guides.py",
    "docs/OPERATIONS.md": "compat_tests/documents/test_guides.py",
    "docs/RUNNING.md": "compat_tests/documents/test_guides_of_brokers.py",
    "docs/SCHEMA_REGISTRY.md": "compat_tests/clients/registry/test_guide.py",
    "docs/SECURING_A_CLUSTER.md": "compat_tests/cluster/rolling/test_secured_rolling.py",
    "docs/SPARK.md": "compat_tests/clients/pyspark/test_guide.py",
    "docs/SQL.md": "compat_tests/comparisons/cli/test_sql_guide.py",
    "docs/TLS_AND_SASL.md": "compat_tests/clients/security/test_guide.py",
}
"""Pages, and the test that runs their commands. It names the page."""

NOT_RUN = {
    "docs/CAMPAIGNS.md": "runs of hours; a small run of the same code is in compat_tests/campaigns",
    "docs/DEPLOYMENT.md": "needs systemd, Docker and Kubernetes: compat_tests/deployment checks the files",
    "docs/PERFORMANCE.md": "runs of minutes whose numbers differ each time",
    "docs/TESTING.md": "pytest's fixtures: compat_tests/clients/users_project is the project that the page describes",
}
"""Pages whose commands no test runs as they stand, each with the reason."""

SHOWN = re.compile(r"^( *)```(?:text|json)\n(.*?)^ *```", re.M | re.S)
"""What a page shows of an output."""
IS_COMPARED = re.compile(r"```sh\n(?:(?!```).)*?```(?:\n\n```text\n.*?```)*", re.S)
"""Commands with their output, as `compat_tests.documents.guides` and others find them."""
NO_OUTPUT = {
    ("docs/RUNNING.md", "kwire start [server.properties]"): "a synopsis, no output",
    ("docs/ACCESS_CONTROL.md", '{"event": "denied"'): "a line of the broker's log, compared by the same test",
    ("docs/ACCESS_CONTROL.md", '{"event": "ACL added"'): "a line of the broker's log, compared by the same test",
    ("docs/AUDIT.md", ""): "its test takes blocks with a sentence between command and output, too",
}
"""Blocks that do not follow a command, by page and beginning, each with the reason."""


def pages() -> list[Path]:
    """README.md and the pages of the site, but those that are made from the code."""
    return [*(ROOT / name for name in ("README.md", "SECURITY.md", "COMPAT.md")), *sorted((ROOT / "docs").glob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_a_page_with_commands_is_run_or_has_a_reason(page: Path) -> None:
    name = name_of(page)
    has_commands = name == "docs/EVERYDAY_TASKS.md" or any(True for _ in commands(page))
    assert (name in RUN) + (name in NOT_RUN) in ((1,) if has_commands else (0, 1)), name
    if name in RUN:
        assert page.name in (ROOT / RUN[name]).read_text(encoding="utf-8"), f"{RUN[name]} does not name {page.name}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_an_output_that_a_page_shows_is_compared(page: Path) -> None:
    name, text = name_of(page), page.read_text(encoding="utf-8")
    compared = "".join(IS_COMPARED.findall(text)) if name in RUN else ""
    left = [
        shown[2]
        for shown in SHOWN.finditer(text)
        if shown[0] not in compared and not any(name == one and shown[2].startswith(begin) for one, begin in NO_OUTPUT)
    ]
    assert left == []
