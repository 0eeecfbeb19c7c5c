"""``python -m compat_tests.suites.kafka_python``."""

import sys

from compat_tests.suites.kafka_python.suite import main

sys.exit(main())
