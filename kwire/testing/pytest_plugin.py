"""The pytest plugin: fixtures ``kwire_proc``, ``kwire_noproc``, ``kwire``, ``kwire_secure_proc``, ``kwire_secure`` and
their options (docs/TESTING.md).

pytest loads this in every project that has kwire installed, so it imports nothing but pytest; what the fixtures need is
imported when a test uses them.
"""

from __future__ import annotations

import pytest

from kwire.testing import factories

kwire_proc = factories.kwire_proc()
kwire_noproc = factories.kwire_noproc()
kwire = factories.kwire()
kwire_secure_proc = factories.kwire_secure_proc()
kwire_secure = factories.kwire_secure()

_SET = "a broker property for kwire_proc; may be given more than once"
_BOOTSTRAP = "HOST:PORT of a broker that runs already: the kwire fixture uses it instead of starting one"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, and their like in the ini file."""
    group = parser.getgroup("kwire", "a Kafka broker for tests")
    group.addoption("--kwire-set", action="append", default=[], metavar="NAME=VALUE", dest="kwire_set", help=_SET)
    group.addoption("--kwire-bootstrap", default="", metavar="HOST:PORT", dest="kwire_bootstrap", help=_BOOTSTRAP)
    parser.addini("kwire_set", help=_SET, type="linelist", default=[])
    parser.addini("kwire_bootstrap", help=_BOOTSTRAP, default="")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say where the tests' broker is when it is not a child of this run."""
    address = factories.given_bootstrap(config)
    return f"kwire: using the broker at {address}" if address else None
