"""The parser of command lines: argparse's, whose errors are one line, as every other failure of a command is."""

from __future__ import annotations

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Also that of each command and action, since argparse makes these of the same class."""

    def error(self, message: str) -> NoReturn:
        """End with status 2 and a line that names the help, which argparse's own usage would be above."""
        self.exit(2, f"kwire: {' '.join(message.split())} (see {self.prog} --help)\n")
