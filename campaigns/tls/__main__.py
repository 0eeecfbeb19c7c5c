"""``python -m campaigns.tls``."""

import sys

from campaigns.tls.campaign import command

if __name__ == "__main__":
    sys.exit(command())
