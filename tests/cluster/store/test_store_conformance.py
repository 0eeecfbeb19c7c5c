"""The conformance tests of metadata stores, on the stores that need no service."""

from __future__ import annotations

from harness.store_conformance import *  # noqa: F403
