"""Which tests of a suite run a second time, and which of their outcomes count."""

from __future__ import annotations

from compat_tests.suites.suite import Outcome, second_attempt


class Run:
    """A second run with given outcomes. ``asked``: the tests that it was asked for."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.asked: list[str] = []
        self._outcomes = list(outcomes)

    def __call__(self, tests: list[str]) -> list[Outcome]:
        """Run these tests, and what else runs with them."""
        self.asked += tests
        return self._outcomes


def states(outcomes: list[Outcome]) -> dict[str, str]:
    """Test -> state."""
    return {one.test: one.state for one in outcomes}


def test_what_has_passed_does_not_run_again() -> None:
    run, outcomes = Run(), [Outcome("A.a", "passed"), Outcome("A.b", "failed"), Outcome("A.c", "skipped")]
    assert second_attempt(outcomes, ["A.a"], run) == outcomes
    assert run.asked == []


def test_a_failure_and_then_a_pass_is_a_pass() -> None:
    run = Run(Outcome("A.b", "passed"))
    found = second_attempt([Outcome("A.a", "passed"), Outcome("A.b", "failed", "late")], ["A.a", "A.b"], run)
    assert states(found) == {"A.a": "passed", "A.b": "passed"}
    assert run.asked == ["A.b"]


def test_a_failure_twice_is_the_second_failure() -> None:
    run = Run(Outcome("A.a", "failed", "second"))
    assert second_attempt([Outcome("A.a", "failed", "first")], ["A.a"], run) == [Outcome("A.a", "failed", "second")]


def test_a_failure_that_is_not_run_a_second_time_stays_one() -> None:
    run = Run(Outcome("A.a", "passed"))
    found = second_attempt([Outcome("A.a", "failed"), Outcome("A.b", "failed")], ["A.a"], run)
    assert states(found) == {"A.a": "passed", "A.b": "failed"}


def test_a_pass_stays_one_if_the_test_runs_again_with_others() -> None:
    run = Run(Outcome("A.a", "failed"), Outcome("A.b", "passed"))
    found = second_attempt([Outcome("A.a", "passed"), Outcome("A.b", "failed")], ["A.a", "A.b"], run)
    assert states(found) == {"A.a": "passed", "A.b": "passed"}


def test_a_class_that_has_failed_as_a_whole_runs_again() -> None:
    run = Run(Outcome("A.a", "passed"), Outcome("A.b", "passed"))
    found = second_attempt([Outcome("A.(the class)", "failed"), Outcome("B.a", "passed")], ["A.a", "A.b", "B.a"], run)
    assert states(found) == {"A.a": "passed", "A.b": "passed", "B.a": "passed"}
    assert run.asked == ["A.a", "A.b"]


def test_a_class_that_fails_as_a_whole_twice_has_failed() -> None:
    run = Run(Outcome("A.(the class)", "failed", "second"))
    found = second_attempt([Outcome("A.(the class)", "failed", "first")], ["A.a"], run)
    assert found == [Outcome("A.(the class)", "failed", "second")]


def test_a_missing_test_that_does_not_run_a_second_time_either_is_still_missing() -> None:
    run = Run()
    assert second_attempt([Outcome("A.a", "passed")], ["A.a", "A.b"], run) == [Outcome("A.a", "passed")]
    assert run.asked == ["A.b"]
