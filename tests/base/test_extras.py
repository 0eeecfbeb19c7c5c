"""Extras: what pyproject.toml declares is what is asked for, and what lacks its libraries says what to install."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from harness.paths import ROOT
from kwire.base.extras import EXTRAS, missing, missing_for_command
from kwire.cli import COMMANDS

DECLARED: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
DEPLOYMENT = (ROOT / "docs" / "DEPLOYMENT.md").read_text(encoding="utf-8")
NOT_IN_ALL = {"gssapi", "spark"}
SERVED = ["start", "--listen", "127.0.0.1:0"]
KEYTAB = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="k" principal="kafka/h@R";'
GSSAPI = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": KEYTAB,
}
USES = {
    "archive": ["archive", "orders", "--to", "parquet", "--path", "orders"],
    "console": ["console"],
    "gssapi": ["start", *(word for item in GSSAPI.items() for word in ("--set", "=".join(item)))],
    "metrics": [*SERVED, "--set", "kwire.metrics.listen=127.0.0.1:0"],
    "otel": [*SERVED, "--set", "kwire.metrics.otel.endpoint=http://127.0.0.1:1/v1/metrics"],
    "zookeeper": [*SERVED, "--set", "zookeeper.connect=127.0.0.1:1"],
}
"""A command line that needs the extra."""


def names(requirements: list[str]) -> set[str]:
    """The packages of requirements, without versions and extras."""
    return {each.partition(">=")[0].partition("==")[0].partition("[")[0] for each in requirements}


@pytest.mark.parametrize("name", EXTRAS)
def test_what_an_extra_installs_is_what_is_looked_for(name: str) -> None:
    assert set(EXTRAS[name].libraries.values()) == names(DECLARED[name])
    assert set(EXTRAS[name].commands) <= COMMANDS.keys()


@pytest.mark.parametrize("name", EXTRAS)
def test_the_page_about_deployment_says_what_an_extra_installs(name: str) -> None:
    (row,) = (each for each in DEPLOYMENT.splitlines() if each.startswith(f"| `{name}` |"))
    installed = row.rsplit("|", 2)[1].strip()
    if name != "gssapi":  # followed by what builds it
        assert installed == ", ".join(sorted(names(DECLARED[name]), key=str.lower))


def test_all_has_what_needs_no_compiler() -> None:
    (requirement,) = DECLARED["all"]
    assert requirement == f"kwire[{','.join(sorted(EXTRAS.keys() - NOT_IN_ALL))}]"


def test_the_line_names_the_libraries_and_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing("console") is None
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    line = "the console needs the libraries orjson, starlette and uvicorn: pip install 'kwire[console]'"
    assert missing("console") == missing_for_command("console") == line
    assert missing_for_command("topic") is None


@pytest.mark.parametrize("name", USES)
def test_what_lacks_its_libraries_says_in_a_line_what_to_install(name: str, tmp_path: Path) -> None:
    module = next(iter(EXTRAS[name].libraries)).partition(".")[0]
    program = f"import sys; sys.modules[{module!r}] = None; from kwire.cli import main; sys.exit(main())"
    arguments = [*USES[name], *(["--data-dir", str(tmp_path)] if "start" in USES[name] else [])]
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"pip install 'kwire[{name}]'" in ended.stderr.splitlines()[-1], ended.stderr
    assert "Traceback" not in ended.stderr


def test_spark_lacking_its_libraries_says_in_a_line_what_to_install() -> None:
    line = "kwire.spark needs the libraries numpy, pyarrow and pyspark: pip install 'kwire[spark]'"
    program = "import sys; sys.modules['pyspark'] = None; import kwire.spark; kwire.spark.session()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr.splitlines()[-1] == f"ImportError: {line}"
    program = "import sys, runpy; sys.modules['pyspark'] = None; runpy.run_module('kwire.spark', run_name='__main__')"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr.splitlines()) == (1, [line])
