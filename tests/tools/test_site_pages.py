"""`tools.site_pages`: the Markdown of the repository on the site."""

from __future__ import annotations

import pytest

from tools.site_pages import in_site, with_wide_lists

PAGES = {"CLUSTER.md", "COMPAT.md", "reference/APIS.md", "images/terminal.svg"}


@pytest.mark.parametrize(
    ("place", "text", "on_site"),
    [
        ("docs/CLUSTER.md", "[all](../COMPAT.md#files)", "[all](COMPAT.md#files)"),
        ("COMPAT.md", "[several](docs/CLUSTER.md)", "[several](CLUSTER.md)"),
        ("docs/reference/APIS.md", "[known](../../COMPAT.md)", "[known](../COMPAT.md)"),
        ("docs/reference/APIS.md", "[COMPAT.md](../../COMPAT.md)", "[Compatibility](../COMPAT.md)"),
        ("docs/CLUSTER.md", "[examples/auction](../examples/auction)", "examples/auction"),
        ("docs/CLUSTER.md", "[gone](GONE.md) [here](#here) [far](https://example.org)", None),
        ("docs/CLUSTER.md", "`[a](../COMPAT.md)`\n```text\n[a](../COMPAT.md)\n```", None),
    ],
)
def test_links_of_the_repository_lead_to_pages_of_the_site(place: str, text: str, on_site: str | None) -> None:
    assert in_site(text, place, PAGES) == (text if on_site is None else on_site)


def test_items_of_lists_are_indented_by_four_spaces() -> None:
    text = "1. One\n   more:\n\n   ```sh\n   ls\n     -l\n   ```\n\n   end\n2. Two\n3. Three\n\n- a\n  - b\n"
    wide = "1. One\n    more:\n\n    ```sh\n    ls\n      -l\n    ```\n\n    end\n\n2. Two\n3. Three\n\n- a\n    - b\n"
    assert with_wide_lists(text) == wide
