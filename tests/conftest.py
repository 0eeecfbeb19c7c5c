"""Property-based tests do not depend on how busy the machine is: no deadline for one example, none for drawing them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("kwire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kwire")
