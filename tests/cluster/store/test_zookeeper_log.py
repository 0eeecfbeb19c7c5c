"""The parts of the ZooKeeper store that need no ZooKeeper: names, entries, the mirror, settings."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.base.config import ConfigError, KafkaConfig
from kwire.cluster.store.store import Change, CommitTooLarge, Entry, StoreFormatError, Write
from kwire.cluster.store.zookeeper.client import ZooKeeperSettings, sasl_options, settings_of
from kwire.cluster.store.zookeeper.commits import OPERATION_BYTES, TRANSACTION_BYTES_MAX, check_size
from kwire.cluster.store.zookeeper.log import (
    ENTRY_BYTES_MAX,
    LogEntry,
    Mirror,
    key_of,
    node_name,
    pack_entry,
    pack_value,
    unpack_entry,
    unpack_value,
)

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
SESSIONS = st.none() | st.integers(0, 2**31 - 1)
WRITES = st.lists(st.builds(Write, KEYS, st.none() | st.binary(max_size=3000), SESSIONS), max_size=5)
DIGEST = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="u" password="p=w";'


@given(KEYS)
def test_any_key_becomes_one_node_name_and_back(key: str) -> None:
    name = node_name(key)
    assert name.isascii()
    assert name.isprintable()
    assert "/" not in name
    assert name not in (".", "..")
    assert key_of(name) == key


def test_node_names_are_readable() -> None:
    assert node_name("partitions/AbC-_9/000001") == "partitions:AbC-_9:000001"


@given(WRITES, st.lists(st.integers(0, 2**31 - 1), max_size=3))
def test_a_log_entry_round_trip(writes: list[Write], ended: list[int]) -> None:
    assert unpack_entry(pack_entry(writes, ended)) == LogEntry(writes, ended)


def test_an_entry_that_would_be_too_large_says_so() -> None:
    noise = bytes((n * n * n >> 7) % 256 ^ (n * 2654435761 >> 13) % 256 for n in range(600_000))
    entry = pack_entry([Write("a", noise)], [7])
    assert len(entry) < ENTRY_BYTES_MAX
    assert unpack_entry(entry) == LogEntry(None, [7])


@given(st.binary(max_size=50), SESSIONS)
def test_a_value_and_its_session_round_trip(value: bytes, session: int | None) -> None:
    assert unpack_value(pack_value(value, session)) == (value, session)


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[]", b'{"v":1,"w":[[1]],"e":[]}', b"x\x9c", b"\xff" * 9])
def test_malformed_entries_are_refused(data: bytes) -> None:
    with pytest.raises(StoreFormatError):
        unpack_entry(data)


@pytest.mark.parametrize("data", [b"", b"x", b"x\nvalue", b"-1\nvalue"])
def test_malformed_values_are_refused(data: bytes) -> None:
    with pytest.raises(StoreFormatError):
        unpack_value(data)


def test_an_entry_of_a_newer_kwire_is_refused() -> None:
    with pytest.raises(StoreFormatError, match="newer kwire"):
        unpack_entry(b'{"v":2,"w":[],"e":[]}')


def test_the_mirror_keeps_the_revision_that_created_a_key() -> None:
    mirror = Mirror(0, 5, 1, {})
    mirror.apply(6, [Write("a", b"1"), Write("b", b"1", 3)])
    changes = mirror.apply(8, [Write("a", b"2"), Write("b", None), Write("c", None)])
    assert changes == [Change("a", Entry(b"2", 8, 6)), Change("b", None)]
    assert (mirror.count, mirror.revision) == (2, 8)
    assert mirror.owners() == []
    mirror.apply(9, [Write("b", b"3")])
    assert mirror.entries["b"].created == 9


def test_the_changes_from_one_state_to_another() -> None:
    old = Mirror(0, 5, 1, {"a": Entry(b"1", 2, 2), "b": Entry(b"1", 3, 3), "c": Entry(b"1", 4, 4)})
    new = Mirror(9, 9, 1, {"a": Entry(b"1", 2, 2), "b": Entry(b"1", 7, 7), "d": Entry(b"1", 8, 8)})
    assert old.changes_to(new) == [
        Change("c", None),
        Change("b", Entry(b"1", 7, 7)),
        Change("d", Entry(b"1", 8, 8)),
    ]


def settings(**properties: str) -> ZooKeeperSettings:
    texts = {name.replace("_", "."): text for name, text in properties.items()}
    return settings_of(
        KafkaConfig({"listeners": "PLAINTEXT://:1", "zookeeper.connect": "a:1, b:2/kafka//one/", **texts})
    )


def test_settings_are_taken_from_kafkas_names() -> None:
    plain = settings()
    assert (plain.hosts, plain.chroot) == ("a:1, b:2", "/kafka/one")
    assert (plain.session_timeout_ms, plain.connection_timeout_ms, plain.set_acl) == (9000, None, False)
    assert plain.tls is plain.sasl is None
    tls = settings(
        zookeeper_ssl_client_enable="true",
        zookeeper_clientCnxnSocket="org.apache.zookeeper.ClientCnxnSocketNetty",
        zookeeper_ssl_keystore_location="/k.pem",
        zookeeper_ssl_keystore_password="secret",
        zookeeper_ssl_truststore_location="/t",
        zookeeper_ssl_truststore_type="PEM",
        zookeeper_ssl_endpoint_identification_algorithm="",
    ).tls
    assert tls == {
        "use_ssl": True,
        "certfile": "/k.pem",
        "keyfile": "/k.pem",
        "keyfile_password": "secret",
        "ca": "/t",
        "verify_certs": True,
        "check_hostname": False,
    }


def test_a_login_is_one_line_of_jaas() -> None:
    assert settings(kwire_zookeeper_sasl_jaas_config=DIGEST).sasl == {
        "mechanism": "DIGEST-MD5",
        "username": "u",
        "password": "p=w",
    }
    kerberos = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true principal="k@R";'
    assert sasl_options(kerberos) == {"mechanism": "GSSAPI", "service": "zookeeper", "principal": "k@R"}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("zookeeper.connect", "a:b", "host:port"),
        ("zookeeper.connect", "", "host:port"),
        ("kwire.metadata.dir", "/x", "one metadata store"),
        ("zookeeper.ssl.cipher.suites", "X", "not supported"),
        ("zookeeper.ssl.crl.enable", "true", "not supported"),
        ("zookeeper.ssl.keystore.type", "JKS", "not supported"),
        ("zookeeper.clientCnxnSocket", "my.Own", "not supported"),
        ("zookeeper.metadata.migration.enable", "true", "not supported"),
        ("zookeeper.sync.time.ms", "2000", "not supported"),
        ("kwire.zookeeper.sasl.jaas.config", "PlainLoginModule required x=y;", "DigestLoginModule"),
        ("kwire.zookeeper.sasl.jaas.config", "DigestLoginModule required username=u;", "DigestLoginModule"),
    ],
)
def test_unsupported_settings_are_refused_by_name(name: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        KafkaConfig({"zookeeper.connect": "a:1", name: text})
    assert name in str(caught.value) or name == "kwire.metadata.dir"


def test_a_keystore_that_is_not_a_pem_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="PEM"):
        settings(zookeeper_ssl_client_enable="true", zookeeper_ssl_truststore_location="/t.jks")


def test_a_change_that_zookeeper_would_not_accept_is_not_sent() -> None:
    fits = SimpleNamespace(path="/kwire", data=bytes(TRANSACTION_BYTES_MAX - OPERATION_BYTES - len("/kwire")))
    check_size([fits])
    with pytest.raises(CommitTooLarge, match=f"ZooKeeper accepts at most {TRANSACTION_BYTES_MAX} at once"):
        check_size([fits, SimpleNamespace(path="")])
