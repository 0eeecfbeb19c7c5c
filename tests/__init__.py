import pytest

pytest.register_assert_rewrite("harness.store_conformance")
