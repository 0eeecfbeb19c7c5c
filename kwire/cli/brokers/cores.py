"""How many processor cores this process may use: `--brokers auto` starts a broker for each.

Three things limit it, and the least counts: the cores of the machine, the affinity (`taskset`, cpusets), and the quotas
of its control groups (`docker run --cpus`, a pod's limit, systemd's CPUQuota), those of the groups around it included.
A part of a core does not count, because a broker that is stopped in the middle of every period makes its clients wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

LEAST: Final = 1
_NO_QUOTA: Final = ("max", "-1")


def usable_cores(root: Path = Path("/")) -> int:
    """The number of cores, at least 1. ``root`` has ``proc`` and what is mounted, for tests."""
    return max(LEAST, min([_affinity(), *_quotas(root)]))


def _affinity() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or LEAST  # macOS


class _Mount(NamedTuple):
    """A mounted hierarchy of control groups: where it is, and which group is at its root."""

    point: str
    group: str


def _quotas(root: Path) -> Iterator[int]:
    """The whole cores that each quota on this process leaves it: those of version 1 and of version 2, which a host may
    have side by side. None on other systems than Linux, and for files that cannot be read."""
    groups, mounts = _own_groups(root), _mounts(root)
    for version, mount in mounts.items():
        if version in groups:
            for directory in _directories(root, mount, groups[version]):
                quota = _quota_v2(directory) if version == 2 else _quota_v1(directory)
                if quota is not None:
                    yield quota


def _own_groups(root: Path) -> dict[int, str]:
    """The path of this process's group by version: that of the `cpu` controller in version 1."""
    found = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            found[2] = path
        elif "cpu" in controllers.split(","):
            found[1] = path
    return found


def _mounts(root: Path) -> dict[int, _Mount]:
    """The first mount of each version's hierarchy. Source: proc_pid_mountinfo(5)."""
    found: dict[int, _Mount] = {}
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        where, what = before.split(), after.split()
        if len(where) < 5 or len(what) < 3:
            continue
        mount = _Mount(_unescaped(where[4]), _unescaped(where[3]))
        if what[0] == "cgroup2":
            found.setdefault(2, mount)
        elif what[0] == "cgroup" and "cpu" in what[2].split(","):
            found.setdefault(1, mount)
    return found


def _directories(root: Path, mount: _Mount, group: str) -> Iterator[Path]:
    """The directories of a group and of those around it, as far as they are mounted. A container that sees the host's
    names, or one that was moved, finds its group at the mount's root."""
    top = root / mount.point.lstrip("/")
    inside = group.removeprefix(mount.group.rstrip("/")) if group.startswith(mount.group.rstrip("/")) else ""
    names = [name for name in inside.split("/") if name]
    if ".." in names:
        names = []
    for depth in range(len(names), -1, -1):
        yield top.joinpath(*names[:depth])


def _quota_v2(directory: Path) -> int | None:
    words = _text(directory / "cpu.max").split()
    return _cores(words[0], words[1]) if len(words) == 2 else None


def _quota_v1(directory: Path) -> int | None:
    return _cores(_text(directory / "cpu.cfs_quota_us").strip(), _text(directory / "cpu.cfs_period_us").strip())


def _cores(quota: str, period: str) -> int | None:
    """The whole cores of a quota per period, both in microseconds; None if there is no quota."""
    if quota in _NO_QUOTA or not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) // int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _unescaped(text: str) -> str:
    """A name of mountinfo, in which a blank is ``\\040``."""
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
