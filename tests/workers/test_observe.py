"""A look reads everything or says what it did not read."""

from dataclasses import replace

import pytest

from pipeline.facts import Known, RequiredCheck, Unknown
from pipeline.intent import Update
from tests.workers.town import HEAD, NOW, PERMISSIONS, Town
from workers.mirror import Identity

WHO = Identity("mac hub", "hub@mac.invalid")


def test_a_look_at_a_green_change_knows_everything_in_five_requests(town: Town) -> None:
    town.repo.ruleset(required_checks=[("ci/test", town.ci)], strict=True)
    town.ci.reports(town.repo, town.head, "ci/test", "success")
    town.ci.sets_status(town.repo, town.head, "lint", "pending")
    number = town.repo.open_pull(HEAD).number
    forge = town.forge()

    remote = town.look(town.sight(pull_request=number), forge)

    assert remote.read_at == NOW
    assert remote.tip == Known(town.base)
    assert remote.head == Known(town.head)
    assert isinstance(remote.rules, Known)
    assert remote.rules.value.required_checks == (RequiredCheck("ci/test", town.ci.id, "ruleset"),)
    assert remote.rules.value.strict
    assert not remote.rules.value.unknown
    assert isinstance(remote.checks, Known)
    assert {(c.kind, c.context, c.app_id, c.conclusion) for c in remote.checks.value} == {
        ("run", "ci/test", town.ci.id, "success"),
        ("status", "lint", None, "pending"),
    }
    assert isinstance(remote.pull_request, Known)
    assert remote.pull_request.value is not None
    assert remote.pull_request.value.head_sha == town.head
    assert (remote.pull_request.value.open, remote.pull_request.value.merge_commit) == (True, None)
    assert isinstance(remote.permissions, Known)
    assert remote.permissions.value >= {"contents:write", "contents:read", "administration:read"}
    assert remote.reviews == Unknown("not_read")
    assert remote.rate_limited_until is None
    assert forge.calls == 5
    assert sum(count for call, count in town.github.calls().items() if not call.startswith("git ")) == 5


def test_the_change_is_computed_by_our_own_git(town: Town) -> None:
    change = town.look().change

    assert isinstance(change, Known)
    found = change.value
    assert (found.head, found.tip) == (town.head, town.base)
    assert (found.contains_tip, found.contained_in_tip, found.contains_verified_base) == (True, False, True)
    assert (found.belongs, found.linear) == (True, True)
    assert found.merged_tree == found.head_tree != found.tip_tree


def test_a_conflict_has_no_merged_tree(town: Town) -> None:
    town.repo.commit(on="main", files={"new.txt": "theirs\n"})

    change = town.look().change

    assert isinstance(change, Known)
    assert change.value.merged_tree is None
    assert not change.value.contains_tip


def test_a_head_that_somebody_moved_does_not_belong_and_its_checks_are_not_known(town: Town) -> None:
    town.ci.reports(town.repo, town.head, "ci/test", "success")
    stranger = town.repo.commit(on=HEAD, files={"extra.txt": "x\n"})

    remote = town.look()

    assert remote.head == Known(stranger)
    assert isinstance(remote.change, Known)
    assert not remote.change.value.belongs
    assert remote.checks == Unknown("head_moved")


def test_a_recorded_update_commit_belongs_and_is_where_checks_are_read(town: Town) -> None:
    tip = town.repo.commit(on="main", files={"other.txt": "o\n"})
    tree = town.repo.git.run("merge-tree", "--write-tree", town.head, tip).strip()
    updated = town.repo.git.run(
        "-c", "user.name=hub", "-c", "user.email=h@x", "commit-tree", "-p", town.head, "-p", tip, "-m", "update", tree
    ).strip()
    town.repo.move(f"refs/heads/{HEAD}", updated)
    town.ci.reports(town.repo, updated, "ci/test", "success")
    sight = replace(town.sight(), updates=(Update(updated, town.head, tip, tree),), pushed=updated)

    remote = town.look(sight)

    assert isinstance(remote.change, Known)
    assert (remote.change.value.belongs, remote.change.value.contains_tip, remote.change.value.linear) == (
        True,
        True,
        False,
    )
    assert isinstance(remote.checks, Known)
    assert [c.context for c in remote.checks.value] == ["ci/test"]


def test_an_update_commit_with_other_content_does_not_belong(town: Town) -> None:
    tip = town.repo.commit(on="main", files={"other.txt": "o\n"})
    tree = town.repo.git.run("rev-parse", f"{town.head}^{{tree}}").strip()
    smuggled = town.repo.git.run(
        "-c", "user.name=hub", "-c", "user.email=h@x", "commit-tree", "-p", town.head, "-p", tip, "-m", "update", tree
    ).strip()
    town.repo.move(f"refs/heads/{HEAD}", smuggled)
    sight = replace(town.sight(), updates=(Update(smuggled, town.head, tip, tree),), pushed=smuggled)

    change = town.look(sight).change

    assert isinstance(change, Known)
    assert not change.value.belongs


def test_before_the_head_is_pushed_no_checks_are_asked_for(town: Town) -> None:
    town.repo.move(f"refs/heads/{HEAD}", None)
    forge = town.forge()

    remote = town.look(town.sight(pushed=False), forge)

    assert remote.head == Known(None)
    assert remote.checks == Unknown("head_absent")
    assert remote.pull_request == Known(None)
    assert remote.change == Unknown("head_not_here")
    assert forge.calls == 2


def test_without_any_rules_the_rules_are_known_to_be_none(town: Town) -> None:
    rules = town.look().rules

    assert isinstance(rules, Known)
    assert not rules.value.required_checks
    assert not rules.value.pull_request_required


def test_classic_404_beside_a_ruleset_still_requires_the_rulesets_check(town: Town) -> None:
    town.repo.ruleset(required_checks=[("build", None)])

    rules = town.look().rules

    assert isinstance(rules, Known)
    assert rules.value.required_checks == (RequiredCheck("build", None, "ruleset"),)


def test_classic_protection_and_rulesets_are_united(town: Town) -> None:
    town.repo.ruleset(required_checks=[("build", town.ci)], approvals=0, pull_request=True)
    town.repo.protect(required_checks=[("lint", None), ("build", town.ci)], strict=True, pull_request=True, approvals=2)

    rules = town.look().rules

    assert isinstance(rules, Known)
    assert {(c.context, c.app_id) for c in rules.value.required_checks} == {("build", town.ci.id), ("lint", None)}
    assert (rules.value.strict, rules.value.pull_request_required, rules.value.approvals_required) == (True, True, 2)


def test_a_rule_of_an_unknown_kind_is_listed(town: Town) -> None:
    town.repo.ruleset(
        rules=[
            "non_fast_forward",
            {"type": "workflows", "parameters": {"workflows": [{"path": "a", "repository_id": 1}]}},
        ]
    )

    rules = town.look().rules

    assert isinstance(rules, Known)
    assert rules.value.unknown == ("workflows",)


def test_without_the_permission_to_read_protection_the_rules_are_unknown(town: Town) -> None:
    without = {name: level for name, level in PERMISSIONS.items() if name != "administration"}

    remote = town.look(forge=town.forge(**without))

    assert remote.rules == Unknown("protection_forbidden")
    assert remote.tip == Known(town.base)


def test_of_a_hundred_and_one_check_runs_the_last_is_read_too(town: Town) -> None:
    for number in range(100):
        town.ci.reports(town.repo, town.head, f"job-{number}", "success")
    town.ci.reports(town.repo, town.head, "required", "failure")

    checks = town.look().checks

    assert isinstance(checks, Known)
    assert len(checks.value) == 101
    assert ("required", "failure") in {(c.context, c.conclusion) for c in checks.value}


def test_repeated_runs_of_one_name_are_all_read_with_their_ids(town: Town) -> None:
    first = town.ci.reports(town.repo, town.head, "ci/test", "success")
    second = town.ci.reports(town.repo, town.head, "ci/test", "failure")

    checks = town.look().checks

    assert isinstance(checks, Known)
    assert {(c.id, c.conclusion) for c in checks.value} == {(first, "success"), (second, "failure")}


def test_a_page_that_promises_more_than_it_holds_makes_the_checks_unknown(town: Town) -> None:
    town.ci.reports(town.repo, town.head, "ci/test", "success")
    town.github.orders.add("GET", "*/check-runs", status=200, body={"total_count": 2, "check_runs": []})

    assert town.look().checks == Unknown("page_incomplete")


@pytest.mark.parametrize(
    ("path", "fact"),
    [
        ("*/check-runs", "checks"),
        ("*/status", "checks"),
        ("*/rules/branches/main", "rules"),
        ("*/pulls/1", "pull_request"),
    ],
)
def test_a_read_that_fails_makes_its_own_fact_unknown_and_no_other(town: Town, path: str, fact: str) -> None:
    town.repo.ruleset(required_checks=[("ci/test", town.ci)])
    number = town.repo.open_pull(HEAD).number
    assert number == 1
    town.github.orders.add("GET", path, status=502, body={"message": "Server Error"})

    remote = town.look(town.sight(pull_request=number))

    unknown = {
        name
        for name in ("tip", "head", "change", "rules", "checks", "pull_request")
        if isinstance(getattr(remote, name), Unknown)
    }
    assert unknown == {fact}


def test_a_rate_limit_with_retry_after_is_carried_into_the_look(town: Town) -> None:
    town.github.orders.add(
        "GET",
        "*/check-runs",
        status=403,
        body={"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."},
        headers={"Retry-After": "90"},
    )

    remote = town.look()

    assert remote.checks == Unknown("rate_limited")
    assert remote.rate_limited_until == NOW + 90_000


def test_a_secondary_limit_without_retry_after_waits_a_minute(town: Town) -> None:
    town.github.orders.add(
        "GET",
        "*/status",
        status=403,
        body={"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."},
    )

    assert town.look().rate_limited_until == NOW + 60_000


def test_git_that_does_not_answer_leaves_tip_head_and_change_unknown(town: Town) -> None:
    forge = town.forge()
    town.hub.revoke_tokens()

    remote = town.look(forge=forge)

    assert isinstance(remote.tip, Unknown)
    assert isinstance(remote.head, Unknown)
    assert isinstance(remote.change, Unknown)
    assert remote.tip.why == "credentials_refused"


def test_a_renamed_repository_is_not_followed(town: Town) -> None:
    town.github.orders.add(
        "GET", "*/pulls/1", status=301, headers={"Location": f"{town.github.url}/repositories/9/pulls/1"}
    )

    remote = town.look(town.sight(pull_request=1))

    assert remote.pull_request == Unknown("moved")
    assert not any("/repositories/9" in call for call in town.github.calls())
