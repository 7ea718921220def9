"""One check run of each name on a head, kept up to date in place."""

import pytest

from pipeline.errors import InvariantBroken, Unavailable
from tests.workers.town import Town
from workers.report import Annotation, Report, write

REVIEW = Report("mac/review", "att_1", "Approved", "All is well.", conclusion="success")
CREATE = "POST /repos/{owner}/{repo}/check-runs"
UPDATE = "PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}"


def test_a_report_is_created_once_and_changed_in_place(town: Town) -> None:
    forge = town.forge()
    waiting = Report("mac/review", "att_1", "Waiting", "The gate runs.")

    first = write(forge, town.head, waiting)
    assert town.repo.check_runs(town.head) == [("mac/review", "in_progress", None)]
    second = write(forge, town.head, REVIEW)

    assert first == second
    assert town.repo.check_runs(town.head) == [("mac/review", "completed", "success")]


def test_a_report_that_stands_already_is_not_written_again(town: Town) -> None:
    forge = town.forge()
    write(forge, town.head, REVIEW)
    town.github.forget_calls()

    write(forge, town.head, REVIEW)

    assert (town.github.calls()[CREATE], town.github.calls()[UPDATE]) == (0, 0)


def test_the_two_reports_stand_side_by_side(town: Town) -> None:
    forge = town.forge()

    write(forge, town.head, REVIEW)
    write(forge, town.head, Report("mac/landing", "att_1", "In line", "Second."))

    assert {name for name, _, _ in town.repo.check_runs(town.head)} == {"mac/review", "mac/landing"}


def test_another_apps_run_of_our_name_is_not_touched(town: Town) -> None:
    town.ci.reports(town.repo, town.head, "mac/review", "failure")

    write(town.forge(), town.head, REVIEW)

    assert sorted(c for _, _, c in town.repo.check_runs(town.head) if c) == ["failure", "success"]


def test_a_report_whose_answer_was_lost_is_not_made_twice(town: Town) -> None:
    forge = town.forge()
    town.github.orders.add("POST", "*/check-runs", status=502, body={"message": "Server Error"})

    with pytest.raises(Unavailable):
        write(forge, town.head, REVIEW)
    write(forge, town.head, REVIEW)

    assert town.repo.check_runs(town.head) == [("mac/review", "completed", "success")]
    assert town.github.calls()[CREATE] == 1


def test_a_hundred_and_twenty_annotations_go_in_calls_of_fifty(town: Town) -> None:
    remarks = tuple(Annotation("new.txt", n + 1, "warning", f"remark {n}") for n in range(120))
    report = Report("mac/review", "att_1", "Rejected", "See below.", conclusion="failure", annotations=remarks)

    write(town.forge(), town.head, report)

    assert (town.github.calls()[CREATE], town.github.calls()[UPDATE]) == (1, 2)


def test_only_our_two_names_are_reported(town: Town) -> None:
    with pytest.raises(InvariantBroken):
        write(town.forge(), town.head, Report("ci/test", "att_1", "x", "y"))
