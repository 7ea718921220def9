"""What the ledger's values look like outside: plain documents, instants as ISO 8601 in UTC.

Inside, every instant is whole milliseconds since the epoch; here is the one place where they turn into text. Durations
(`…_ms`) stay numbers. Unknown stays null.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ledger.history import Entry
from ledger.leases import LeasedTask
from ledger.projects import Project
from ledger.tasks import Task

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANTS = frozenset({"at", "since", "deadline", "not_before"})


def iso(at_ms: int) -> str:
    """`2026-01-31T12:00:00.250Z` for an instant in milliseconds."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def outside(value: Any) -> Any:
    """A read model for the outside: what is named like an instant (`at`, `…_at`, `since`, `deadline`) becomes text."""
    if isinstance(value, Mapping):
        return {key: _field(key, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [outside(inner) for inner in value]
    return value


def project(found: Project) -> dict[str, Any]:
    """A project; what no worker has read yet is null. Its contract is shown by digest."""
    return {
        "id": found.id,
        "name": found.name,
        "owner": found.owner,
        "repository": found.repository,
        "canonical_branch": found.canonical_branch,
        "state": found.state,
        "paused": found.paused,
        "method": found.method,
        "markers_admitted": found.markers_admitted,
        "contract_digest": found.contract_digest,
        "refusal": None if found.refusal is None else {"code": found.refusal, "facts": dict(found.refusal_facts)},
        "created_at": iso(found.created_at),
        "settled_at": None if found.settled_at is None else iso(found.settled_at),
    }


def task(found: Task) -> dict[str, Any]:
    """A task. `metadata` repeats a directive under its own name, where executors look for it."""
    directive = None if found.directive is None else dict(found.directive)
    return {
        "id": found.id,
        "project": found.project_id,
        "title": found.title,
        "body": found.body,
        "deliverable": found.deliverable.value,
        "priority": found.priority,
        "state": found.state.value,
        "reason": None if found.reason is None else {"code": found.reason, "facts": dict(found.reason_facts)},
        "attempts": found.attempts,
        "attempts_left": found.attempts_left,
        "tokens": found.tokens,
        "token_budget": found.token_budget,
        "sent_back": found.sent_back,
        "held": found.held,
        "branch": found.head_branch,
        "head": found.pushed_head,
        "pull_request": None
        if found.pull_request is None
        else {"number": found.pull_request, "url": found.pull_request_url},
        "directive": directive,
        "metadata": {} if directive is None else {str(directive["code"]): directive.get("facts", {})},
        "created_at": iso(found.created_at),
        "changed_at": iso(found.changed_at),
    }


def lease(leased: LeasedTask) -> dict[str, Any]:
    """A lease as its executor gets it: durations instead of instants, because the two clocks may differ."""
    found, of = leased.task, leased.project
    return {
        "task": {
            "id": found.id,
            "project": of.name,
            "title": found.title,
            "body": found.body,
            "deliverable": found.deliverable.value,
        },
        "attempt": {"id": leased.attempt_id, "number": leased.attempt},
        "lease": {
            "id": leased.lease_id,
            "token": leased.token,
            "expires_in_ms": leased.expires_in_ms,
            "beat_in_ms": leased.beat_in_ms,
        },
        "repository": {
            "clone_url": of.clone_url,
            "canonical_branch": of.canonical_branch,
            "tip": leased.tip,
            "branch": found.head_branch,
        },
        "contract": of.contract,
        "directive": None if found.directive is None else dict(found.directive),
    }


def entry(row: Entry) -> dict[str, Any]:
    """One row of a timeline."""
    return {
        "at": iso(row.at),
        "subject": row.subject,
        "subject_id": row.subject_id,
        "event": row.event,
        "from_state": row.from_state,
        "to_state": row.to_state,
        "reason": row.reason,
        "facts": outside(row.facts),
        "actor": row.actor,
    }


def _field(key: str, value: Any) -> Any:
    named = key in _INSTANTS or key.endswith("_at")
    return iso(value) if named and isinstance(value, int) and not isinstance(value, bool) else outside(value)
