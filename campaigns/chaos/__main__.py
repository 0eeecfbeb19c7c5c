"""``python -m campaigns.chaos``."""

import sys

from campaigns.chaos.campaign import main

sys.exit(main())
