"""librdkafka with its tests: fetched with the crate `rdkafka-sys` and built once, in the cache folder.

The version with tests of share consumers comes with the npm package `@confluentinc/kafka-javascript`; no crate has it
yet. Both are built with everything that a login can need: OpenSSL, Cyrus SASL for GSSAPI, libcurl for OAUTHBEARER's
tokens.

Needs gcc, g++, make, pkg-config, npm for the npm package, and the development packages of `PACKAGES`, which root's
first build installs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path

from compat_tests.suites.suite import CannotBuild
from harness.downloads import APT_OPTIONS, CommandFailed, attempted, downloaded, untar
from harness.kafka_jars import cache_root, locked

LIBRDKAFKA, WITH_SHARE_CONSUMERS = "2.12.1", "2.15.0"
VERSIONS = (LIBRDKAFKA, WITH_SHARE_CONSUMERS)
CRATE = f"4.10.0+{LIBRDKAFKA}"
CRATE_SHA256 = "e234cf318915c1059d4921ef7f75616b5219b10b46e9f3a511a15eb4b56a3f77"
NPM_PACKAGE = "@confluentinc/kafka-javascript@1.10.0"
NPM_SHA256 = "34a088e303707ea995d7453c832920bfd02106488cd055813b7c21fc9e6d337c"
PACKAGES = {
    "openssl/ssl.h": "libssl-dev",
    "zlib.h": "zlib1g-dev",
    "zstd.h": "libzstd-dev",
    "sasl/sasl.h": "libsasl2-dev",
    "curl/curl.h": "libcurl4-openssl-dev",
}
_OPTIONAL = {"rapidjson/document.h": "rapidjson-dev"}  # three tests need it to parse statistics
KERBEROS = "libsasl2-modules-gssapi-mit"
"""What Cyrus SASL needs besides for GSSAPI; it is installed with the headers."""


def why_not(version: str = LIBRDKAFKA) -> str | None:
    """None if the suite can be built or has been, otherwise the names of what is missing."""
    if (_built(version) / ".complete").exists():
        return None
    tools = ("gcc", "g++", "make", "pkg-config", *(["npm"] if version == WITH_SHARE_CONSUMERS else []))
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if shutil.which("g++"):
        missing += [package for header, package in PACKAGES.items() if not _has_header(header)]
    return f"needs {', '.join(missing)}" if missing else None


def _has_header(header: str) -> bool:
    command = ["g++", "-E", "-include", header, "-x", "c++", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _built(version: str) -> Path:
    return cache_root() / f"librdkafka-{version}-secured"


def folder_of_tests(version: str = LIBRDKAFKA) -> Path:
    """The folder with the built `test-runner`; builds it on first use (a minute or two). Raises `CannotBuild`."""
    with locked("librdkafka"):
        if not (_built(version) / ".complete").exists():
            _install_packages()
            reason = why_not(version)
            if reason:
                raise CannotBuild(reason)
            _build(version, _built(version))
    return _built(version) / "tests"


def _install_packages() -> None:
    """Install the headers from the system's packages, if permitted."""
    packages = {**PACKAGES, **_OPTIONAL}
    wanted = [package for header, package in packages.items() if shutil.which("g++") and not _has_header(header)]
    if not wanted or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *wanted, KERBEROS]):
        subprocess.run(["apt-get", "-qq", *APT_OPTIONS, *words], env=environment, capture_output=True, check=False)


def _build(version: str, folder: Path) -> None:
    print(f"building librdkafka {version} and its tests in {folder} (once) ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    _unpack(version, folder)
    steps = (  # without optimization it is built in a third of the time, and the tests wait most of theirs
        ["./configure", "--disable-optimization", "--enable-gssapi", "--enable-curl"],
        ["make", "-j2", "libs"],
        ["make", "-j2", "-C", "tests", "build"],
    )
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotBuild(f"{' '.join(step)}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    (folder / ".complete").write_text("")


def _unpack(version: str, folder: Path) -> None:
    """The `librdkafka` folder of the crate or the npm package, checked against the pinned digest."""
    with tempfile.TemporaryDirectory(dir=cache_root()) as name:
        place = Path(name)
        if version == WITH_SHARE_CONSUMERS:
            archive, inside = _npm_package(place), "package/deps/librdkafka"
        else:
            archive, inside = _crate(place), f"rdkafka-sys-{CRATE}/librdkafka"
        untar(archive, place)
        (place / inside).rename(folder)


def _crate(place: Path) -> Path:
    address = f"https://static.crates.io/crates/rdkafka-sys/rdkafka-sys-{CRATE}.crate"
    crate = place / "crate.tar.gz"

    def fetch() -> None:
        with urllib.request.urlopen(address, timeout=120) as response:
            crate.write_bytes(response.read())
        _check(crate, CRATE_SHA256, address)

    attempted(address, fetch, OSError, HTTPException, CannotBuild)
    return crate


def _npm_package(place: Path) -> Path:
    try:
        downloaded(f"npm pack {NPM_PACKAGE}", ["npm", "pack", "--silent", NPM_PACKAGE], cwd=place)
    except CommandFailed as error:
        raise CannotBuild(str(error)) from None
    (package,) = place.glob("*.tgz")
    _check(package, NPM_SHA256, NPM_PACKAGE)
    return package


def _check(archive: Path, digest: str, name: str) -> None:
    if sha256(archive.read_bytes()).hexdigest() != digest:
        raise CannotBuild(f"{name} is not what it was")
