"""A whole cluster in one process on virtual time: the real broker behind doors that a seed decides.

`Simulation` (in `world`) has the loop, the network and any number of machines, each with a disk and doors of its own.
Nothing here waits: when nobody has anything to do, the clock jumps to the next timer. The same seed and scenario give
the same trace, byte for byte.
"""

from harness.simulation.world import Machine, Simulation

__all__ = ["Machine", "Simulation"]
