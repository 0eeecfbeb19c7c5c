"""`cordoned.log.dirs` (KIP-1066): which entries name a broker's directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.config.cordoning import are_cordoned, check_cordoned, names_of_directories


def test_a_directory_is_named_as_in_log_dirs_or_by_its_absolute_path() -> None:
    here = str(Path("data").absolute())
    names = names_of_directories(["data", "/other"])
    assert names == [("data", here), ("/other", "/other")]
    assert not are_cordoned(names, ["data"])
    assert are_cordoned(names, [here, "/other"])
    assert are_cordoned(names, ["*"])
    assert not are_cordoned(names, [])


@pytest.mark.parametrize("wrong", ["/nowhere", "/a,/nowhere", "/a/"])
def test_an_entry_that_is_no_directory_of_the_broker_is_refused(wrong: str) -> None:
    config = KafkaConfig({"log.dirs": "/a,/b", "cordoned.log.dirs": wrong})
    with pytest.raises(ConfigError, match=r"All cordoned log dirs must be entries of log\.dirs"):
        check_cordoned(config.values)


@pytest.mark.parametrize("right", ["", "*", "/b", "/b,/a"])
def test_entries_of_log_dirs_are_accepted(right: str) -> None:
    check_cordoned(KafkaConfig({"log.dirs": "/a,/b", "cordoned.log.dirs": right}).values)


def test_all_directories_stand_alone() -> None:
    with pytest.raises(ConfigError, match=r"or \* alone"):
        KafkaConfig({"log.dirs": "/a,/b", "cordoned.log.dirs": "*,/a"})
