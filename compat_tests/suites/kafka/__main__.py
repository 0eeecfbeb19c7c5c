"""``python -m compat_tests.suites.kafka``."""

import sys

from compat_tests.suites.kafka.suite import main

sys.exit(main())
