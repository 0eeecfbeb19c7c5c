"""What a running process and its descendants use: processor time, memory, file descriptors. Linux's /proc only."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for parent in found:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def cpu_s(pid: int) -> float:
    """User and system time of a process, its threads past and present, and its descendants, in seconds."""
    return sum(map(_cpu_s, family(pid)))


def _cpu_s(pid: int) -> float:
    # The clock of another process (CPUCLOCK_SCHED in Linux) counts nanoseconds; /proc/PID/stat counts hundredths.
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def kernel_s(pid: int) -> float:
    """The part of it that the kernel took (system time), in hundredths of a second."""
    return sum(map(_kernel_s, family(pid)))


def _kernel_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return int(fields[12]) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process and its descendants, in MB (10^6 bytes)."""
    return sum(_memory_mb(each, "status", "VmRSS") for each in family(pid))


def proportional_mb(pid: int) -> float:
    """The same, with memory that several processes share counted in part (PSS)."""
    return sum(_memory_mb(each, "smaps_rollup", "Pss") for each in family(pid))


def own_mb(pid: int) -> float:
    """The same without what is mapped from files: it does not depend on who else runs the same program."""
    return sum(_memory_mb(each, "status", "RssAnon") for each in family(pid))


def peak_mib(pid: int) -> float:
    """The most resident memory that one process has had, in MiB; its descendants are not counted."""
    return _memory_mb(pid, "status", "VmHWM") * 1e6 / (1 << 20)


def descriptors(pid: int) -> int:
    """How many files and sockets one process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def _memory_mb(pid: int, file: str, name: str) -> float:
    try:
        match = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(match[1]) * 1024 / 1e6 if match else 0.0
