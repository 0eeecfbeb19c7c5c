"""``python -m kwire.spark``: the settings for a session of your own, as options of spark-submit; or, with
``--properties``, as lines of spark-defaults.conf."""

from __future__ import annotations

import argparse
import sys

from kwire.base.extras import missing


def main() -> int:
    """Print them. The exit status is 1 if PySpark is not installed and no version is given."""
    parser = argparse.ArgumentParser(prog="python -m kwire.spark", description=__doc__)
    parser.add_argument("--version", metavar="V", help="of PySpark (default: the one that is installed)")
    parser.add_argument("--properties", action="store_true", help="lines for spark-defaults.conf")
    arguments = parser.parse_args()
    if arguments.version is None and (line := missing("spark")):
        print(line, file=sys.stderr)
        return 1
    from kwire.spark.sessions import connector_settings

    try:
        settings = connector_settings(arguments.version)
    except ValueError:
        print(f"PySpark {arguments.version}: kwire.spark needs 4.0.0 or later", file=sys.stderr)
        return 1
    for name, value in settings.items():
        print(f"{name} {value}" if arguments.properties else f"--conf {name}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
