"""Write deploy/kubernetes/kwire.yaml: what Helm makes of the chart with its default values.

    .venv/bin/python -m compat_tests.deployment.chart

Helm is the one in PATH, or is built once with Go (some minutes) into ``~/.cache/kwire/helm``. The test beside it
validates the manifests without Helm as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Final

from harness.kafka_jars import cache_root
from harness.paths import ROOT

HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.19.0"
KUBERNETES: Final = "1.31.0"
"""For the chart's check of the version: this Helm knows none from its own build."""
BUILD_S: Final = 1800
CHART: Final = ROOT / "deploy" / "helm" / "kwire"
RENDERED: Final = ROOT / "deploy" / "kubernetes" / "kwire.yaml"
HEADER: Final = """\
# Three brokers, as Helm renders deploy/helm/kwire with its default values: docs/DEPLOYMENT.md.
# Written by `python -m compat_tests.deployment.chart`.
"""


def installed_helm() -> str | None:
    """Helm's program, if there is one."""
    built = cache_root() / "helm" / "helm"
    return str(built) if built.exists() else shutil.which("helm")


def build_helm() -> str:
    """Build Helm with Go; its program."""
    folder = cache_root() / "helm"
    command = ["go", "install", HELM]
    subprocess.run(command, env={**os.environ, "GOBIN": str(folder)}, check=True, timeout=BUILD_S)
    return str(folder / "helm")


def render(helm: str, *options: str) -> str:
    """The manifests."""
    command = [helm, "template", "kwire", str(CHART), "--namespace", "default", "--kube-version", KUBERNETES, *options]
    return HEADER + subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def main() -> int:
    """Write the file."""
    RENDERED.write_text(render(installed_helm() or build_helm()))
    print(RENDERED.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
