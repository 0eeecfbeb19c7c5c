"""The structure of the source tree: no import circles, no crowded packages, no tricks with the module search path.

`docs/ARCHITECTURE.md` describes the layers; import-linter holds their order (`pyproject.toml`). What it cannot express
is computed here from the source: circles of any kind, imports under TYPE_CHECKING and inside functions included.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from harness.paths import ROOT
from tools.reference.pages import stale

MODULES_MAX = 16
"""Modules in one package, beside ``__init__.py`` and sub-packages."""

CROWDED: dict[str, str] = {
    "kwire/codec/messages": "generated: one module for each message of Kafka's tables",
}
"""Packages with more modules, each with its reason."""

MODULE_CIRCLES: dict[frozenset[str], str] = {}
"""Modules that import each other, each circle with its reason."""

PACKAGE_CIRCLES: dict[frozenset[str], str] = {}
"""Sub-packages of one package that import each other, each circle with its reason."""

TREES = ("kwire", "harness", "campaigns", "tools", "examples", "tests", "compat_tests")
SEARCH_PATH_CHANGE = re.compile(r"\bsys\.path(\.(insert|append|extend|remove|pop|clear)\b|\[.*\]\s*=[^=]|\s*\+?=[^=])")

Graph = Mapping[str, set[str]]


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of kwire by its dotted name, parsed. The generated messages are left out: they import no others."""
    found = {}
    for path in sorted((ROOT / "kwire").rglob("*.py")):
        if path.parent.name == "messages" and path.name != "__init__.py":
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text())
    return found


def imported(name: str, tree: ast.Module) -> Iterator[str]:
    """The modules of kwire that a module imports anywhere in its text."""
    known = modules()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{name}: relative import"
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
            candidates = [each if each in known else node.module for each in dotted]
        else:
            continue
        yield from (each for each in candidates if each in known and each != name)


@cache
def graph() -> Graph:
    return {name: set(imported(name, tree)) for name, tree in modules().items()}


def circles(edges: Graph) -> list[frozenset[str]]:
    """The strongly connected components of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(frozenset(component))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def siblings(package: str) -> Graph:
    """Which sub-packages of a package import which."""
    depth = package.count(".") + 1
    packages = {name.rpartition(".")[0] for name in modules()}
    edges: dict[str, set[str]] = {}

    def sub_package(module: str) -> str | None:
        name = ".".join(module.split(".")[: depth + 1])
        return name if module.startswith(package + ".") and name in packages else None

    for module, targets in graph().items():
        if (start := sub_package(module)) is not None:
            ends = {end for target in targets if (end := sub_package(target)) is not None}
            edges.setdefault(start, set()).update(ends - {start})
    return edges


def python_files(tree: str) -> Iterator[str]:
    for path in sorted((ROOT / tree).rglob("*.py")):
        yield str(path.relative_to(ROOT))


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [frozenset("abc")]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_of_kwire_import_each_other() -> None:
    assert [sorted(circle) for circle in circles(graph()) if circle not in MODULE_CIRCLES] == []


@pytest.mark.parametrize("package", ["kwire", *sorted({name.rpartition(".")[0] for name in modules()} - {"", "kwire"})])
def test_no_sub_packages_import_each_other(package: str) -> None:
    assert [sorted(circle) for circle in circles(siblings(package)) if circle not in PACKAGE_CIRCLES] == []


@pytest.mark.parametrize("tree", TREES)
def test_no_package_is_crowded(tree: str) -> None:
    counts: dict[str, int] = {}
    for file in python_files(tree):
        folder, _, name = file.rpartition("/")
        counts[folder] = counts.get(folder, 0) + (name != "__init__.py")
    assert {folder: n for folder, n in counts.items() if n > MODULES_MAX and folder not in CROWDED} == {}


@pytest.mark.parametrize("tree", [*TREES, "scripts"])
def test_the_module_search_path_is_never_changed(tree: str) -> None:
    files = [*python_files(tree), *(str(p.relative_to(ROOT)) for p in (ROOT / tree).iterdir() if tree == "scripts")]
    own = "tests/test_structure.py"
    texts = {file: (ROOT / file).read_text() for file in files if (ROOT / file).is_file() and file != own}
    assert [file for file, text in texts.items() if SEARCH_PATH_CHANGE.search(text)] == []


@pytest.mark.parametrize(
    "line", ["sys.path.insert(0, x)", "sys.path[:0] = [x]", "sys.path += [x]", "sys.path = x", "sys.path.append(x)"]
)
def test_a_changed_search_path_is_noticed(line: str) -> None:
    assert SEARCH_PATH_CHANGE.search(line)
    assert not SEARCH_PATH_CHANGE.search("os.pathsep.join(filter(None, sys.path))")


@pytest.mark.parametrize("tree", TREES)
def test_every_folder_with_modules_is_a_package(tree: str) -> None:
    folders = {file.rpartition("/")[0] for file in python_files(tree)}
    projects = [path.parent for path in (ROOT / tree).rglob("requirements.txt")]  # a user's project has its own layout
    stand_ins = (ROOT / tree).rglob("stand_in")  # takes the place of another project's package
    others = [*projects, *stand_ins]
    apart = {folder for folder in folders if any((ROOT / folder).is_relative_to(other) for other in others)}
    assert {f for f in folders - apart - {"examples"} if not (ROOT / f / "__init__.py").exists()} == set()


def test_the_reference_is_as_the_code_has_it() -> None:
    assert stale() == [], "run .venv/bin/python -m tools.reference"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    listed = set(re.findall(r"[\w/]+\.md\b", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert there - listed == set(), "add the page to the end of mkdocs.yml"
