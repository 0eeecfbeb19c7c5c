"""A Kerberos key distribution centre (MIT's, of Debian's krb5-kdc) for tests, with its own realm on loopback.

Principals: ``kafka/localhost`` and ``kafka/127.0.0.1`` for brokers, one for each of `USERS`, each with a keytab. No
file outside its folder is read or written: processes get its configuration by the environment variable KRB5_CONFIG.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from harness.processes.brokers import wait_until
from harness.processes.ports import free_port

REALM: Final = "KWIRE.TEST"
SERVICE: Final = "kafka"
USERS: Final = ("alice", "bob")
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
PACKAGES: Final = ("krb5-kdc", "krb5-admin-server", "krb5-user")
"""Debian's packages with these programs."""


def missing() -> str | None:
    """What this machine lacks for a key distribution centre and a broker that uses it; None if nothing."""
    lacking = [name for name in PROGRAMS if _program(name) is None]
    if lacking:
        return f"{', '.join(lacking)} missing (apt-get install {' '.join(PACKAGES)})"
    return None if find_spec("gssapi") else "Python's gssapi missing (scripts/test compat installs it)"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Kerberos:
    """One key distribution centre in a folder. A context manager: leaving it ends the process.

    ``ticket_life``: the life of all tickets, in seconds.
    """

    def __init__(self, home: Path, ticket_life: int = 3600) -> None:
        self.home = home
        self.port = free_port()
        self.config = home / "krb5.conf"
        self._ticket_life = ticket_life
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a process uses this realm and writes nothing elsewhere."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.home / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.home}/ccache",
            "KRB5RCACHENAME": f"file2:{self.home}/rcache",
        }

    @property
    def java_options(self) -> list[str]:
        """Options with which a Java process uses this realm."""
        return [f"-Djava.security.krb5.conf={self.config}"]

    def keytab(self, name: str) -> Path:
        """The keytab of `SERVICE` or of a user."""
        return self.home / f"{name}.keytab"

    def principal(self, name: str) -> str:
        """The full name of a principal: ``alice@KWIRE.TEST``."""
        return f"{name}@{REALM}"

    def start(self) -> Self:
        """Make the realm with its principals, and return when the server serves."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._write_configuration()
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-secret")
        self.add(SERVICE, [f"{SERVICE}/localhost", f"{SERVICE}/127.0.0.1"])
        for name in USERS:
            self.add(name, [name])
        command = [str(_program("krb5kdc")), "-n", "-r", REALM, "-P", str(self.home / "kdc.pid")]
        if sys.platform == "linux" and shutil.which("setpriv"):
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        with open(self.home / "kdc.out", "ab") as log:
            environment = {**os.environ, **self.environment}
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        wait_until(self._serves, 30, "the key distribution centre serves")
        return self

    def add(self, keytab: str, principals: Sequence[str]) -> Path:
        """Add principals with random keys, in one keytab."""
        for principal in principals:
            self._administer(f"addprinc -randkey {principal}@{REALM}")
            self.export_key(keytab, principal)
        return self.keytab(keytab)

    def export_key(self, keytab: str, principal: str) -> None:
        """Give a principal a new key and append it to a keytab."""
        self._administer(f"ktadd -k {self.keytab(keytab)} {principal}@{REALM}")

    def change_key(self, principal: str) -> None:
        """Give a principal a new key that is in no keytab."""
        self._administer(f"cpw -randkey {principal}@{REALM}")

    def _administer(self, query: str) -> None:
        self._run("kadmin.local", "-r", REALM, "-q", query)

    def ticket_cache(self, name: str, *options: str) -> Path:
        """A file with a ticket-granting ticket of a user, got with the user's keytab. ``options``: kinit's."""
        path = self.home / f"{name}.ccache"
        self._run("kinit", "-c", str(path), *options, "-k", "-t", str(self.keytab(name)), self.principal(name))
        return path

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def _write_configuration(self) -> None:
        life = f"{self._ticket_life}s"
        libraries = {
            "default_realm": REALM,
            "dns_lookup_realm": "false",
            "dns_lookup_kdc": "false",
            "dns_canonicalize_hostname": "false",
            "rdns": "false",
            "udp_preference_limit": "1",
            "ticket_lifetime": life,
        }
        server = {
            "database_name": self.home / "principal",
            "key_stash_file": self.home / "stash",
            "acl_file": self.home / "kadm5.acl",
            "kdc_listen": f"127.0.0.1:{self.port}",
            "kdc_tcp_listen": f"127.0.0.1:{self.port}",
            "max_life": life,
            "max_renewable_life": life,
        }
        realm = f"[realms]\n{REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n}}\n[domain_realm]\n"
        domains = f"localhost = {REALM}\n127.0.0.1 = {REALM}\n"
        self.config.write_text(f"[libdefaults]\n{_lines(libraries)}{realm}{domains}")
        logging = f"[logging]\nkdc = FILE:{self.home}/kdc.log\nadmin_server = FILE:{self.home}/kadmin.log\n"
        profile = f"[realms]\n{REALM} = {{\n{_lines(server)}}}\n{logging}"
        (self.home / "kdc.conf").write_text(profile)

    def _run(self, name: str, *arguments: str) -> str:
        command = [str(_program(name)), *arguments]
        done = subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        return done.stdout

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.home / "kdc.out").read_text()
        try:
            self.ticket_cache(USERS[0])
        except AssertionError:
            return False
        return True


def _lines(settings: Mapping[str, object]) -> str:
    return "".join(f"  {name} = {value}\n" for name, value in settings.items())
