"""Reasons: the closed vocabulary of why the hub does what it does next.

One word for each, shown alike by the API, the command line, the pages, the check runs and the metrics. The sentence for
each stands in `pipeline.words`; a test holds the two together.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a decision was taken. The value is the stable code."""

    # settled by what the ledger holds
    INTENT_UNSETTLED = "intent_unsettled"
    INTENT_OPEN = "intent_open"
    PROOF_VERIFIED = "proof_verified"
    REPORT_APPROVED = "report_approved"
    TASK_TERMINAL = "task_terminal"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    NOT_OURS = "not_ours"
    # sticky blocks
    LANDED_UNPROVEN = "landed_unproven"
    LANDED_UNATTRIBUTED = "landed_unattributed"
    ALREADY_CONTAINED = "already_contained"
    REJECTED_FOR_GOOD = "rejected_for_good"
    BUDGET_SPENT = "budget_spent"
    FAILED_ALIKE = "failed_alike"
    SEND_BACKS_SPENT = "send_backs_spent"
    LANDINGS_REFUSED = "landings_refused"
    FRONT_TIME_SPENT = "front_time_spent"
    CHECK_NEVER_FINISHED = "check_never_finished"
    # waits for the world
    UNKNOWN = "unknown"
    UNCONFIRMED = "unconfirmed"
    PROJECT_PAUSED = "project_paused"
    HELD = "held"
    RATE_LIMITED = "rate_limited"
    SLOT_TAKEN = "slot_taken"
    # the head and its pull request
    HEAD_NOT_PUSHED = "head_not_pushed"
    PULL_REQUEST_ABSENT = "pull_request_absent"
    # blocks on facts
    PULL_REQUEST_CLOSED = "pull_request_closed"
    PULL_REQUEST_RETARGETED = "pull_request_retargeted"
    HEAD_NOT_OF_EVIDENCE = "head_not_of_evidence"
    PERMISSION_MISSING = "permission_missing"
    NO_GUARDED_METHOD = "no_guarded_method"
    MERGE_QUEUE_REQUIRED = "merge_queue_required"
    UNKNOWN_RULE = "unknown_rule"
    APP_CAN_BYPASS = "app_can_bypass"
    OWN_CHECK_REQUIRED = "own_check_required"
    IMPOSSIBLE_CHECK = "impossible_check"
    CHECK_FAILED = "check_failed"
    CONTRACT_BROKEN = "contract_broken"
    # review
    GATE_NOT_RUN = "gate_not_run"
    VERDICT_REJECTED = "verdict_rejected"
    VERDICT_ENVIRONMENT = "verdict_environment"
    # the change and the tip
    CONFLICT = "conflict"
    CONTRACT_CHANGED = "contract_changed"
    CANONICAL_MOVED = "canonical_moved"
    # persons
    CONTRACT_EDITED = "contract_edited"
    UNDOES_LANDED_LINES = "undoes_landed_lines"
    APPROVALS_MISSING = "approvals_missing"
    CONVERSATIONS_OPEN = "conversations_open"
    AUTHOR_MUST_UPDATE = "author_must_update"
    # the line and the gate of the landing
    NOT_FIRST = "not_first"
    CHECKS_PENDING = "checks_pending"
    CHECKS_OVERDUE = "checks_overdue"
    NO_GATE = "no_gate"
    GATE_GREEN = "gate_green"
