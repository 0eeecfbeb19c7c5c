"""Counting the cores of this process, on trees of files like those of Linux."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kwire.cli.brokers.cores import usable_cores

V2_MOUNT = "36 25 0:31 / /sys/fs/cgroup rw,nosuid,nodev,noexec - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNT = "37 25 0:32 {root} /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct"
V1_MEMORY = "38 25 0:33 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory"


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def tree(root: Path, group: str, mounts: list[str], **files: str) -> int:
    """The cores in a tree: ``group`` is /proc/self/cgroup; a file's name has ``__`` for ``/``."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(group)
    (root / "proc/self/mountinfo").write_text("\n".join(["25 0 8:1 / / rw - ext4 /dev/sda1 rw", *mounts]))
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("cpu_", "cpu.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return usable_cores(root)


def test_without_control_groups_the_affinity_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_cores(tmp_path) == 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7})
    assert usable_cores(tmp_path) == 2


def test_without_an_affinity_the_cores_of_the_machine_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores(tmp_path) == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores(tmp_path) == 1


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000\n", 8),
        ("300000 100000\n", 3),
        ("350000 100000\n", 3),
        ("50000 100000\n", 1),
        ("20000 10000\n", 2),
        ("9000000 100000\n", 8),
        ("", 8),
        ("300000\n", 8),
        ("300000 0\n", 8),
        ("three cores\n", 8),
    ],
)
def test_version_2(tmp_path: Path, quota: str, cores: int) -> None:
    assert tree(tmp_path, "0::/app\n", [V2_MOUNT], app__cpu_max=quota) == cores


def test_the_least_of_nested_quotas_counts(tmp_path: Path) -> None:
    found = tree(
        tmp_path, "0::/pod/app/worker\n", [V2_MOUNT], pod__cpu_max="200000 100000", pod__app__cpu_max="600000 100000"
    )
    assert found == 2


def test_a_container_finds_its_quota_at_the_root_of_its_namespace(tmp_path: Path) -> None:
    assert tree(tmp_path, "0::/\n", [V2_MOUNT], cpu_max="400000 100000") == 4


def test_a_group_outside_the_namespace_is_looked_up_at_the_root(tmp_path: Path) -> None:
    assert tree(tmp_path, "0::/../../other\n", [V2_MOUNT], cpu_max="400000 100000") == 4


def test_version_1_in_a_container_that_sees_the_names_of_the_host(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n",
        [V1_MEMORY, V1_MOUNT.format(root="/docker/abc")],
        **{"cpu,cpuacct__cpu_cfs_quota_us": "250000\n", "cpu,cpuacct__cpu_cfs_period_us": "100000\n"},
    )
    assert found == 2


def test_version_1_with_nested_groups_and_none_without_a_limit(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        "4:cpu,cpuacct:/kubepods/pod1/c1\n0::/unified\n",
        [V1_MOUNT.format(root="/")],
        **{
            "cpu,cpuacct__kubepods__pod1__cpu_cfs_quota_us": "500000",
            "cpu,cpuacct__kubepods__pod1__cpu_cfs_period_us": "100000",
            "cpu,cpuacct__kubepods__pod1__c1__cpu_cfs_quota_us": "-1",
            "cpu,cpuacct__kubepods__pod1__c1__cpu_cfs_period_us": "100000",
        },
    )
    assert found == 5


def test_both_versions_side_by_side(tmp_path: Path) -> None:
    found = tree(
        tmp_path,
        "4:cpu,cpuacct:/a\n0::/a\n",
        [V1_MOUNT.format(root="/"), V2_MOUNT.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified")],
        **{
            "cpu,cpuacct__a__cpu_cfs_quota_us": "600000",
            "cpu,cpuacct__a__cpu_cfs_period_us": "100000",
            "unified__a__cpu_max": "500000 100000",
        },
    )
    assert found == 5


def test_a_mount_point_with_a_blank(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/c g").mkdir(parents=True)
    (tmp_path / "sys/fs/c g/cpu.max").write_text("100000 100000")
    assert tree(tmp_path, "0::/\n", [V2_MOUNT.replace("/sys/fs/cgroup", "/sys/fs/c\\040g")]) == 1


def test_files_of_another_form_are_passed_over(tmp_path: Path) -> None:
    assert tree(tmp_path, "nonsense\n\n::\n", ["short - x", "also short"]) == 8
