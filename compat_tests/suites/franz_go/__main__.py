"""``python -m compat_tests.suites.franz_go``."""

import sys

from compat_tests.suites.franz_go.suite import main

sys.exit(main())
