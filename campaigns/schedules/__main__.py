"""``python -m campaigns.schedules``."""

import sys

from campaigns.schedules.campaign import main

sys.exit(main())
