"""Extras: the libraries of parts that plain ``pip install kwire`` leaves out. `EXTRAS` is the whole list.

``pyproject.toml`` declares the same libraries with their versions; ``tests/base/test_extras.py`` holds both together.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, NamedTuple


class Extra(NamedTuple):
    """What needs an extra, its libraries (module -> name on PyPI), and the commands that do nothing without them."""

    part: str
    libraries: dict[str, str]
    commands: tuple[str, ...] = ()


EXTRAS: Final = {
    "archive": Extra(
        "the archive",
        {
            "deltalake": "deltalake",
            "numpy": "numpy",
            "obstore": "obstore",
            "pyarrow": "pyarrow",
            "pyiceberg": "pyiceberg",
            "sqlalchemy": "SQLAlchemy",
        },
        ("archive", "backup", "restore"),
    ),
    "audit": Extra("kwire audit", {"duckdb": "duckdb", "numpy": "numpy", "pyarrow": "pyarrow"}),
    "console": Extra("the console", {"orjson": "orjson", "starlette": "starlette", "uvicorn": "uvicorn"}, ("console",)),
    "gssapi": Extra("GSSAPI", {"gssapi": "gssapi"}),
    "metrics": Extra("kwire.metrics.listen", {"prometheus_client": "prometheus-client"}),
    "otel": Extra(
        "kwire.metrics.otel.endpoint",
        {
            "opentelemetry.sdk": "opentelemetry-sdk",
            "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
            "prometheus_client": "prometheus-client",
        },
    ),
    "registry": Extra(
        "the schema registry",
        {
            "fastavro": "fastavro",
            "jsonschema": "jsonschema",
            "google.protobuf": "protobuf",
            "proto_schema_parser": "proto-schema-parser",
            "starlette": "starlette",
            "uvicorn": "uvicorn",
        },
        ("registry",),
    ),
    "spark": Extra("kwire.spark", {"numpy": "numpy", "pyarrow": "pyarrow", "pyspark": "pyspark"}),
    "sql": Extra(
        "kwire sql",
        {"duckdb": "duckdb", "numpy": "numpy", "pyarrow": "pyarrow", "prompt_toolkit": "prompt-toolkit"},
        ("sql",),
    ),
    "zookeeper": Extra("zookeeper.connect", {"kazoo": "kazoo"}),
}


def missing(name: str) -> str | None:
    """What to install for an extra, in one line; None if its libraries are there."""
    return None if all(map(_is_installed, EXTRAS[name].libraries)) else needed(name)


def missing_for_command(command: str) -> str | None:
    """What to install for a command, in one line; None if it lacks nothing."""
    return next((missing(name) for name, extra in EXTRAS.items() if command in extra.commands), None)


def needed(name: str) -> str:
    """What to install for an extra, in one line."""
    extra = EXTRAS[name]
    *others, last = extra.libraries.values()
    libraries = f"the libraries {', '.join(others)} and {last}" if others else f"the library {last}"
    return f"{extra.part} needs {libraries}: pip install 'kwire[{name}]'"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False
