"""The package `test` of kafka-python's sources, which ship without its `__init__`: its modules are found where the
sources were unpacked, and the one that is missing there (`service`) here. Python has a `test` of its own otherwise."""

import os

__path__.append(os.path.join(os.environ["KAFKA_PYTHON_SOURCES"], "test"))
