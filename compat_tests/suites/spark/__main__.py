"""``python -m compat_tests.suites.spark``."""

import sys

from compat_tests.suites.spark.suite import main

sys.exit(main())
