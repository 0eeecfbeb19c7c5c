"""The package `test` of kafka-python's sources, which ship without its `__init__`.

Its path covers the unpacked sources and this folder, which has the module that is missing there (`service`). Without
it, `test` would be the package of Python's standard library."""

import os

__path__.append(os.path.join(os.environ["KAFKA_PYTHON_SOURCES"], "test"))
