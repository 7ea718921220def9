"""What a branch demands of whoever moves it, from both layers: classic protection and rulesets.

The two layers are read into one form, `Demands`, so that pushes and merges judge them alike. Who may go around a
layer (administrators where they are not included, bypass actors of a ruleset) is decided here.
"""

import fnmatch
from dataclasses import dataclass, field
from typing import Literal

from tests.sandbox.auth import Caller
from tests.sandbox.world import Json, Protection, Repository, RequiredCheck, Ruleset

Road = Literal["push", "merge"]
Layer = Literal["classic", "ruleset"]


@dataclass
class Demands:
    """The demands of one layer on one branch."""

    layer: Layer
    checks: list[RequiredCheck] = field(default_factory=list)
    strict: bool = False
    checks_on_create: bool = True
    pull_request: bool = False
    approvals: int = 0
    methods: set[str] | None = None
    linear_history: bool = False
    signatures: bool = False
    no_force: bool = False
    no_deletion: bool = False
    no_creation: bool = False
    no_update: bool = False
    merge_queue: bool = False


def short(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def classic_of(repository: Repository, branch: str) -> Protection | None:
    """The classic protection of a branch, exact names before patterns."""
    if branch in repository.protections:
        return repository.protections[branch]
    matching = (p for name, p in repository.protections.items() if fnmatch.fnmatchcase(branch, name))
    return next(matching, None)


def rulesets_of(repository: Repository, ref: str) -> list[Ruleset]:
    """The active rulesets whose conditions cover this branch."""
    return [r for r in repository.rulesets if r.enforcement == "active" and _covers(repository, r, ref)]


def _covers(repository: Repository, rules: Ruleset, ref: str) -> bool:
    names = rules.conditions.get("ref_name", {})

    def matches(pattern: str) -> bool:
        if pattern == "~ALL":
            return True
        wanted = f"refs/heads/{repository.default_branch}" if pattern == "~DEFAULT_BRANCH" else pattern
        return fnmatch.fnmatchcase(ref, wanted)

    included = any(matches(pattern) for pattern in names.get("include", []))
    excluded = any(matches(pattern) for pattern in names.get("exclude", []))
    return rules.target == "branch" and ref.startswith("refs/heads/") and included and not excluded


def demands_on(repository: Repository, ref: str, caller: Caller, road: Road) -> list[Demands]:
    """Every layer that binds this caller on this branch."""
    found: list[Demands] = []
    classic = classic_of(repository, short(ref)) if ref.startswith("refs/heads/") else None
    if classic is not None and (classic.enforce_admins or caller.person is None):
        found.append(_of_classic(classic, caller))
    binding = [rules for rules in rulesets_of(repository, ref) if not bypasses(rules, caller, road)]
    return [*found, *map(_of_ruleset, binding)]


def bypasses(rules: Ruleset, caller: Caller, road: Road) -> bool:
    """Whether a ruleset's bypass list lets this caller pass on this road."""
    for actor in rules.bypass_actors:
        if actor.get("bypass_mode", "always") == "pull_request" and road == "push":
            continue
        kind, number = actor["actor_type"], actor.get("actor_id")
        app = caller.acting_app
        if kind == "Integration" and app is not None and number == app.id:
            return True
        if caller.person is not None and (
            kind in ("OrganizationAdmin", "RepositoryRole") or (kind == "User" and number == caller.person.id)
        ):
            return True
    return False


def _of_classic(rules: Protection, caller: Caller) -> Demands:
    app = caller.acting_app
    listed = rules.push_apps is None or (app is not None and app.id in rules.push_apps)
    return Demands(
        layer="classic",
        checks=rules.required_checks or [],
        strict=rules.strict,
        checks_on_create=False,
        pull_request=rules.pull_request,
        approvals=rules.approvals,
        linear_history=rules.linear_history,
        signatures=rules.signatures,
        no_force=not rules.allow_force_pushes,
        no_deletion=not rules.allow_deletions,
        no_update=not listed,
    )


def _of_ruleset(rules: Ruleset) -> Demands:
    found = Demands(layer="ruleset")
    for rule in rules.rules:
        _add_rule(found, rule["type"], rule.get("parameters", {}))
    return found


def _add_rule(found: Demands, kind: str, parameters: Json) -> None:
    match kind:
        case "required_status_checks":
            listed = parameters["required_status_checks"]
            found.checks += [RequiredCheck(c["context"], c.get("integration_id")) for c in listed]
            found.strict = found.strict or parameters["strict_required_status_checks_policy"]
            found.checks_on_create = not parameters.get("do_not_enforce_on_create", False)
        case "pull_request":
            found.pull_request = True
            found.approvals = max(found.approvals, parameters.get("required_approving_review_count", 0))
            if "allowed_merge_methods" in parameters:
                found.methods = set(parameters["allowed_merge_methods"])
        case "required_linear_history":
            found.linear_history = True
        case "required_signatures":
            found.signatures = True
        case "non_fast_forward":
            found.no_force = True
        case "deletion":
            found.no_deletion = True
        case "creation":
            found.no_creation = True
        case "update":
            found.no_update = True
        case "merge_queue":
            found.merge_queue = True
        case _:
            """Other kinds of rules are listed to readers, and not enforced (docs/sandbox.md, holes)."""
