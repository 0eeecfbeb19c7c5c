"""``python -m compat_tests.suites.kafka_streams``."""

import sys

from compat_tests.suites.kafka_streams.suite import main

sys.exit(main())
