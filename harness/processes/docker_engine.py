#!/usr/bin/env python3
"""A Docker engine and a base image for the tests of the container image, where there are none.

    harness/processes/docker_engine.py install    install docker.io, iptables, debootstrap (root only), the base image
    harness/processes/docker_engine.py status     print what is there

The tests (`compat_tests/container/`) use an engine that runs already; otherwise they start Debian's with everything of
its own under ~/.cache/kwire/docker, and end it. No registry is needed: the base image is a small Debian with python3
that debootstrap has made (two minutes, once).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kwire" / "docker"
BASE_ARCHIVE = CACHE / "base.tar"
BASE_IMAGE = "kwire-base:bookworm"
PACKAGES = ("docker.io", "iptables", "debootstrap")
MIRROR = "http://deb.debian.org/debian"
START_TIMEOUT_S = 60.0


class NoEngine(Exception):
    """There is no engine, and none can be started; the message gives the reason and the remedy."""


class Engine:
    """A running engine. ``host`` is a DOCKER_HOST; ``base_image`` is the image to build on."""

    def __init__(self, host: str, base_image: str) -> None:
        self.host = host
        self.base_image = base_image

    def docker(self, *arguments: str, timeout_s: float = 300, **options: object) -> str:
        """Run the docker command; return its standard output. RuntimeError with its output if it fails."""
        environment = {**os.environ, "DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "0"}
        command = ["docker", *arguments]
        done = subprocess.run(  # type: ignore[call-overload]
            command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False, **options
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return str(done.stdout)


def running_host() -> str | None:
    """The DOCKER_HOST of an engine that runs already, if there is one."""
    host = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if not shutil.which("docker"):
        return None
    done = subprocess.run(["docker", "-H", host, "info"], capture_output=True, timeout=30, check=False)
    return host if done.returncode == 0 else None


def why_not() -> str | None:
    """Why no engine is available; None if there is one or one can be started."""
    if not shutil.which("docker"):
        return "no docker command"
    if running_host():
        return None
    if not shutil.which("dockerd"):
        return "no Docker engine runs and none is installed (as root: harness/processes/docker_engine.py install)"
    if os.geteuid() != 0:
        return "no Docker engine runs, and only root can start one"
    if not BASE_ARCHIVE.exists():
        return f"no base image at {BASE_ARCHIVE} (as root: harness/processes/docker_engine.py install)"
    return None


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """An engine that runs, or a private one for the length of the ``with`` block. `NoEngine` if there is none."""
    if reason := why_not():
        raise NoEngine(reason)
    if host := running_host():
        yield Engine(host, os.environ.get("KWIRE_BASE_IMAGE", "python:3.13-slim"))
        return
    with _private_engine() as private:
        if BASE_IMAGE not in private.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split():
            private.docker("import", str(BASE_ARCHIVE), BASE_IMAGE)
        yield private
        private.docker("image", "prune", "--force")  # what was built before


@contextlib.contextmanager
def _private_engine() -> Iterator[Engine]:
    """Debian's engine with its data, socket and pid file under the cache directory."""
    CACHE.mkdir(parents=True, exist_ok=True)
    host = f"unix://{CACHE}/docker.sock"
    command = ["dockerd", f"--data-root={CACHE}/data", f"--exec-root={CACHE}/exec", f"--pidfile={CACHE}/dockerd.pid"]
    command += ["--host", host]
    if driver := os.environ.get("KWIRE_DOCKER_STORAGE"):  # otherwise the engine finds what works here
        command.append(f"--storage-driver={driver}")
    with (CACHE / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _await_engine(process, host)
        yield Engine(host, BASE_IMAGE)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_engine(process: subprocess.Popen[bytes], host: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while subprocess.run(["docker", "-H", host, "info"], capture_output=True, timeout=30, check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            words = (CACHE / "dockerd.log").read_text(errors="replace")[-2000:]
            raise NoEngine(f"dockerd does not start:\n{words}")
        time.sleep(0.1)


def install() -> None:
    """Packages and the base image. Ends the program when this is not root."""
    if os.geteuid() != 0:
        sys.exit("only root can install packages")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if not all(shutil.which(command) for command in ("dockerd", "iptables", "debootstrap")):
        subprocess.run(["apt-get", "-qq", "update"], env=environment, check=True)
        subprocess.run(
            ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *PACKAGES], env=environment, check=True
        )
    if not BASE_ARCHIVE.exists():
        make_base()
    print(f"base image: {BASE_ARCHIVE} ({BASE_ARCHIVE.stat().st_size / 1e6:.0f} MB)")


def make_base() -> None:
    """A Debian with python3 and what a virtual environment needs, as an archive for ``docker import``."""
    CACHE.mkdir(parents=True, exist_ok=True)
    root = CACHE / "debootstrap"
    shutil.rmtree(root, ignore_errors=True)
    packages = "python3,python3-venv,ca-certificates"
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root), MIRROR], check=True
    )
    left_out = [f"--exclude=./{name}/*" for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "proc")]
    partial = BASE_ARCHIVE.with_suffix(".partial")
    subprocess.run(["tar", "-C", str(root), *left_out, "-cf", str(partial), "."], check=True)
    partial.rename(BASE_ARCHIVE)
    shutil.rmtree(root)


def main() -> int:
    """The command line; see the module's docstring."""
    match sys.argv[1:]:
        case ["install"]:
            install()
        case ["status"]:
            print(why_not() or f"ready: {running_host() or 'the tests start an engine of their own'}")
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
