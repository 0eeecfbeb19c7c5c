"""``python -m compat_tests.clients.pyspark.ported``: all cases. Options are those of pytest, and ``--broker``."""

import sys
from pathlib import Path

import pytest

sys.exit(pytest.main(["--every-case", "-q", *sys.argv[1:], str(Path(__file__).parent)]))
