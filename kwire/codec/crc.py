"""CRC-32C (Castagnoli), the checksum of record batches, in hardware where the processor has it.

One function, the C one: every produced batch passes through it, and it reads a memoryview without copying. The tests
hold it against `crcmod`, an independent implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec


def _load() -> Callable[..., int]:
    # The package's own __init__ reads its version with importlib.metadata, which costs 35 ms of start-up: a tenth of
    # all that a broker may take. Its extension module alone costs nothing.
    package = find_spec("crc32c")
    locations = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec("crc32c._crc32c", locations) if locations else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as function

        return function
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded: Callable[..., int] = module.crc32c
    return loaded


crc32c = _load()  # crc32c(data, value=0) -> int
