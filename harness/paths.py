"""Where things are in the source tree."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The root of the repository: subprocesses start here, so that they find its packages."""
