"""Rules are the union of both layers, and what is not known is listed."""

from typing import Any

import pytest

from pipeline.facts import RequiredCheck, Rules
from workers.rules import Self, rules_of

US = Self(app_id=7)
OFF = {"enabled": False}
ON = {"enabled": True}


def _checks(*contexts: tuple[str, int | None], strict: bool = False, ruleset: int = 1) -> dict[str, Any]:
    listed = [{"context": c} | ({"integration_id": app} if app else {}) for c, app in contexts]
    parameters = {"required_status_checks": listed, "strict_required_status_checks_policy": strict}
    return {"type": "required_status_checks", "ruleset_id": ruleset, "parameters": parameters}


def _pull_request(**parameters: Any) -> dict[str, Any]:
    return {"type": "pull_request", "ruleset_id": 1, "parameters": {"required_approving_review_count": 0} | parameters}


def test_nothing_in_either_layer_is_no_rule() -> None:
    assert rules_of([], None, US) == Rules()
    assert rules_of([{"type": "deletion"}, {"type": "non_fast_forward"}, {"type": "creation"}], {}, US) == Rules()


def test_the_same_context_pinned_and_unpinned_is_demanded_twice() -> None:
    classic = {
        "required_status_checks": {
            "strict": False,
            "contexts": ["test"],
            "checks": [{"context": "test", "app_id": None}],
        }
    }

    rules = rules_of([_checks(("test", 9))], classic, US)

    assert rules.required_checks == (RequiredCheck("test", 9, "ruleset"), RequiredCheck("test", None, "protection"))


def test_a_check_named_in_both_layers_stands_once_and_either_may_be_strict() -> None:
    classic = {"required_status_checks": {"strict": True, "contexts": [], "checks": [{"context": "test", "app_id": 9}]}}

    rules = rules_of([_checks(("test", 9))], classic, US)

    assert rules.required_checks == (RequiredCheck("test", 9, "ruleset"),)
    assert rules.strict


@pytest.mark.parametrize("app_id", [None, -1])
def test_a_classic_check_of_any_app_is_not_pinned(app_id: int | None) -> None:
    classic = {"required_status_checks": {"checks": [{"context": "test", "app_id": app_id}], "contexts": ["test"]}}

    assert rules_of([], classic, US).required_checks == (RequiredCheck("test", None, "protection"),)


def test_an_older_list_of_contexts_is_read_too() -> None:
    classic = {"required_status_checks": {"contexts": ["old", "test"], "checks": [{"context": "test", "app_id": 9}]}}

    assert {(c.context, c.app_id) for c in rules_of([], classic, US).required_checks} == {("test", 9), ("old", None)}


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ("required_linear_history", "linear_history"),
        ("required_signatures", "signatures_required"),
        ("merge_queue", "merge_queue"),
        ("update", "push_restricted"),
    ],
)
def test_each_rule_sets_its_own_field(rule: str, field: str) -> None:
    rules = rules_of([{"type": rule, "ruleset_id": 1}], None, US)

    assert {name for name in Rules.__slots__ if getattr(rules, name)} == {field}


@pytest.mark.parametrize("rule", ["workflows", "code_scanning", "required_deployments", "something_of_next_year"])
def test_a_rule_that_this_version_cannot_wait_for_is_listed(rule: str) -> None:
    assert rules_of([{"type": rule}], None, US).unknown == (rule,)


@pytest.mark.parametrize("asks", ["require_code_owner_review", "require_last_push_approval"])
def test_an_owners_review_asks_for_an_approval(asks: str) -> None:
    rules = rules_of([_pull_request(**{asks: True})], None, US)

    assert (rules.pull_request_required, rules.approvals_required) == (True, 1)


def test_of_two_counts_of_approvals_the_larger_holds() -> None:
    classic = {"required_pull_request_reviews": {"required_approving_review_count": 1}}

    rules = rules_of([_pull_request(required_approving_review_count=0)], classic, US)

    assert rules.approvals_required == 1


@pytest.mark.parametrize(("apps", "restricted"), [([], True), ([{"id": 8}], True), ([{"id": 8}, {"id": 7}], False)])
def test_a_list_of_who_may_push_keeps_us_out_unless_it_names_us(apps: list[Any], restricted: bool) -> None:
    rules = rules_of([], {"restrictions": {"users": [], "teams": [], "apps": apps}}, US)

    assert rules.push_restricted is restricted


def test_a_locked_branch_takes_no_push() -> None:
    assert rules_of([], {"lock_branch": ON}, US).push_restricted
    assert not rules_of([], {"lock_branch": OFF}, US).push_restricted


def test_being_let_past_classic_pull_requests_is_being_admitted() -> None:
    reviews = {"required_approving_review_count": 1, "bypass_pull_request_allowances": {"apps": [{"id": 7}]}}
    classic = {
        "required_pull_request_reviews": reviews,
        "required_status_checks": {"checks": [{"context": "t", "app_id": 9}]},
    }

    rules = rules_of([], classic, US)

    assert not rules.pull_request_required
    assert not rules.app_can_bypass
    assert rules.required_checks


def test_being_let_past_required_checks_is_said_and_they_are_demanded_all_the_same() -> None:
    us = Self(app_id=7, bypassed_rulesets=frozenset({1}))

    rules = rules_of([_checks(("test", 9), ruleset=1), _pull_request()], None, us)

    assert rules.app_can_bypass
    assert rules.required_checks
    assert not rules.pull_request_required
