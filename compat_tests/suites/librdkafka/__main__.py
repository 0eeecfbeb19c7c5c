"""``python -m compat_tests.suites.librdkafka``."""

import sys

from compat_tests.suites.librdkafka.suite import main

sys.exit(main())
