"""The rules of a branch: the union of classic protection and rulesets, as one value.

Neither layer alone says what GitHub enforces: "not protected" in one says nothing about the other. What is stricter in
either holds, and a rule that this version does not know is listed, never passed over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pipeline.facts import RequiredCheck, Rules

# Rules that GitHub enforces on a push or a merge by itself and that ask for nothing we could wait for: a landing that
# breaks one is refused there by name. `creation`, `deletion` and `non_fast_forward` forbid what a landing never does.
_ENFORCED_THERE: Final = frozenset(
    {
        "creation",
        "deletion",
        "non_fast_forward",
        "branch_name_pattern",
        "tag_name_pattern",
        "commit_message_pattern",
        "commit_author_email_pattern",
        "committer_email_pattern",
        "file_path_restriction",
        "max_file_path_length",
        "file_extension_restriction",
        "max_file_size",
        "copilot_code_review",
    }
)


@dataclass(frozen=True, slots=True)
class Self:
    """Who we are to the rules: our App, and the rulesets that list it as a bypass actor (read at registration)."""

    app_id: int
    bypassed_rulesets: frozenset[int] = frozenset()


def rules_of(ruleset_rules: Iterable[Mapping[str, Any]], protection: Mapping[str, Any] | None, own: Self) -> Rules:
    """The union. `protection` is None only when GitHub said in so many words that the branch has none."""
    union = Rules()
    for rule in ruleset_rules:
        union = merged(union, _of_rule(rule, own))
    if protection is not None:
        union = merged(union, _of_protection(protection, own))
    return union


def merged(one: Rules, other: Rules) -> Rules:
    """What both demand together; a check that both name stands once for each App it is pinned to."""
    seen = {(check.context, check.app_id) for check in one.required_checks}
    added = tuple(c for c in other.required_checks if (c.context, c.app_id) not in seen)
    return Rules(
        required_checks=one.required_checks + added,
        strict=one.strict or other.strict,
        pull_request_required=one.pull_request_required or other.pull_request_required,
        approvals_required=max(one.approvals_required, other.approvals_required),
        conversations_required=one.conversations_required or other.conversations_required,
        linear_history=one.linear_history or other.linear_history,
        signatures_required=one.signatures_required or other.signatures_required,
        merge_queue=one.merge_queue or other.merge_queue,
        push_restricted=one.push_restricted or other.push_restricted,
        app_can_bypass=one.app_can_bypass or other.app_can_bypass,
        unknown=tuple(dict.fromkeys(one.unknown + other.unknown)),
    )


def _of_rule(rule: Mapping[str, Any], own: Self) -> Rules:
    kind = str(rule.get("type"))
    parameters: Mapping[str, Any] = rule.get("parameters") or {}
    bypassed = rule.get("ruleset_id") in own.bypassed_rulesets
    if kind == "required_status_checks":
        checks = tuple(
            RequiredCheck(str(c["context"]), c.get("integration_id"), "ruleset")
            for c in parameters.get("required_status_checks", [])
        )
        strict = bool(parameters.get("strict_required_status_checks_policy"))
        # A check that we could bypass is still demanded; that we could is said, so that nobody lands around it.
        return Rules(required_checks=checks, strict=strict, app_can_bypass=bypassed)
    if bypassed:
        # Being admitted past the other rules is how an owner lets the hub push; the checks above are what must hold.
        return Rules()
    if kind == "pull_request":
        return _of_pull_request_rule(parameters)
    known: Mapping[str, Rules] = {
        "required_linear_history": Rules(linear_history=True),
        "required_signatures": Rules(signatures_required=True),
        "merge_queue": Rules(merge_queue=True),
        "update": Rules(push_restricted=True),
    }
    if kind in known:
        return known[kind]
    return Rules() if kind in _ENFORCED_THERE else Rules(unknown=(kind,))


def _of_pull_request_rule(parameters: Mapping[str, Any]) -> Rules:
    """Code owners and last-push approval ask for at least one approval, even where the count says none."""
    count = int(parameters.get("required_approving_review_count") or 0)
    if parameters.get("require_code_owner_review") or parameters.get("require_last_push_approval"):
        count = max(count, 1)
    return Rules(
        pull_request_required=True,
        approvals_required=count,
        conversations_required=bool(parameters.get("required_review_thread_resolution")),
    )


def _of_protection(protection: Mapping[str, Any], own: Self) -> Rules:
    rules = Rules(
        required_checks=_classic_checks(protection.get("required_status_checks") or {}),
        strict=bool((protection.get("required_status_checks") or {}).get("strict")),
        conversations_required=_enabled(protection, "required_conversation_resolution"),
        linear_history=_enabled(protection, "required_linear_history"),
        signatures_required=_enabled(protection, "required_signatures"),
        push_restricted=_enabled(protection, "lock_branch") or _kept_out(protection.get("restrictions"), own),
    )
    reviews: Mapping[str, Any] | None = protection.get("required_pull_request_reviews")
    if reviews is None or _names(reviews.get("bypass_pull_request_allowances"), own):
        return rules
    count = int(reviews.get("required_approving_review_count") or 0)
    if reviews.get("require_code_owner_reviews") or reviews.get("require_last_push_approval"):
        count = max(count, 1)
    return replace(rules, pull_request_required=True, approvals_required=count)


def _classic_checks(required: Mapping[str, Any]) -> tuple[RequiredCheck, ...]:
    """`checks` pins the App (null or -1: any); `contexts` is the older list, and fills in what `checks` leaves out."""
    pinned = [(str(c["context"]), c.get("app_id")) for c in required.get("checks") or []]
    named = {context for context, _ in pinned}
    older = [(str(context), None) for context in required.get("contexts") or [] if context not in named]
    return tuple(
        RequiredCheck(context, app if isinstance(app, int) and app > 0 else None, "protection")
        for context, app in [*pinned, *older]
    )


def _enabled(protection: Mapping[str, Any], name: str) -> bool:
    return bool((protection.get(name) or {}).get("enabled"))


def _kept_out(restrictions: Mapping[str, Any] | None, own: Self) -> bool:
    """Who may push is listed, and our App is not on the list."""
    return restrictions is not None and not _names(restrictions, own)


def _names(actors: Mapping[str, Any] | None, own: Self) -> bool:
    return any(app.get("id") == own.app_id for app in (actors or {}).get("apps") or [])
