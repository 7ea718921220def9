"""Every refusal has a name: the closed vocabulary of request refusals, with the one sentence that people read.

The code is shared by the API, the command line and the pages; `webhook.problems` maps each to its HTTP status.
"""

from collections.abc import Mapping
from enum import StrEnum


class Refusal(StrEnum):
    """Why a request is not granted. The value is the stable code."""

    # doors
    SIGNATURE_MISSING = "signature_missing"
    SIGNATURE_WRONG = "signature_wrong"
    BODY_TOO_LARGE = "body_too_large"
    BODY_NOT_JSON = "body_not_json"
    DELIVERY_HEADERS_MISSING = "delivery_headers_missing"
    FIELD_INVALID = "field_invalid"
    TOKEN_MISSING = "token_missing"
    TOKEN_UNKNOWN = "token_unknown"
    SCOPE_MISSING = "scope_missing"
    ROUTE_UNKNOWN = "route_unknown"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    # things
    PROJECT_UNKNOWN = "project_unknown"
    PROJECT_EXISTS = "project_exists"
    PROJECT_NOT_READY = "project_not_ready"
    APP_NOT_INSTALLED = "app_not_installed"
    BRANCH_UNKNOWN = "branch_unknown"
    MARKERS_REFUSED = "markers_refused"
    TASK_UNKNOWN = "task_unknown"
    ID_AMBIGUOUS = "id_ambiguous"
    LEASE_UNKNOWN = "lease_unknown"
    PROOF_UNKNOWN = "proof_unknown"
    TRANSITION_UNKNOWN = "transition_unknown"
    DEPENDENCY_UNKNOWN = "dependency_unknown"
    # leases and evidence
    LEASE_STALE = "lease_stale"
    LEASE_NOT_YOURS = "lease_not_yours"
    DELIVERABLE_MISMATCH = "deliverable_mismatch"
    EVIDENCE_INVALID = "evidence_invalid"
    EVIDENCE_TOO_LARGE = "evidence_too_large"
    BUNDLE_MISSING = "bundle_missing"
    BUNDLE_INVALID = "bundle_invalid"
    BUNDLE_TOO_LARGE = "bundle_too_large"
    HEAD_NOT_IN_BUNDLE = "head_not_in_bundle"
    HEAD_NOT_ON_REMOTE = "head_not_on_remote"
    SLOT_LOST = "slot_lost"
    INTENT_NOT_ADMITTED = "intent_not_admitted"
    # contract
    CONTRACT_BROKEN = "contract_broken"
    CONTRACT_MISSING = "contract_missing"
    # operators
    EVIDENCE_MOVED_ON = "evidence_moved_on"
    NOTHING_TO_WAVE = "nothing_to_wave"
    FORCE_COMPLETE_REFUSED = "force_complete_refused"
    PROOF_REFUSED = "proof_refused"
    BOOTSTRAP_DONE = "bootstrap_done"


_SENTENCES: Mapping[Refusal, str] = {
    Refusal.SIGNATURE_MISSING: "The delivery carries no X-Hub-Signature-256 header.",
    Refusal.SIGNATURE_WRONG: "The signature does not match the raw body under any active secret.",
    Refusal.BODY_TOO_LARGE: "The body is larger than the limit of {limit} bytes.",
    Refusal.BODY_NOT_JSON: "The body is not a JSON object.",
    Refusal.DELIVERY_HEADERS_MISSING: "A delivery names its event and its id in X-GitHub-Event and X-GitHub-Delivery.",
    Refusal.FIELD_INVALID: "The field {field} is not valid: {problem}.",
    Refusal.TOKEN_MISSING: "This route needs a bearer token.",
    Refusal.TOKEN_UNKNOWN: "The token is unknown, expired or revoked.",
    Refusal.SCOPE_MISSING: "The token's scope {scope} does not cover this route; it needs {needed}.",
    Refusal.ROUTE_UNKNOWN: "There is no such route.",
    Refusal.METHOD_NOT_ALLOWED: "This route does not know that method.",
    Refusal.IDEMPOTENCY_KEY_REUSED: "The idempotency key was used before with another request.",
    Refusal.PROJECT_UNKNOWN: "There is no project {project}.",
    Refusal.PROJECT_EXISTS: "The project {project} is registered already.",
    Refusal.PROJECT_NOT_READY: "The project {project} is not ready: {problem}.",
    Refusal.APP_NOT_INSTALLED: "The App is not installed on {repository}, or the repository does not exist.",
    Refusal.BRANCH_UNKNOWN: "The repository has no branch {branch}.",
    Refusal.MARKERS_REFUSED: "The remote does not take refs below refs/mac/, which fence every landing: {answer}.",
    Refusal.TASK_UNKNOWN: "There is no task {task}.",
    Refusal.ID_AMBIGUOUS: "The prefix {prefix} names more than one.",
    Refusal.LEASE_UNKNOWN: "There is no lease {lease}.",
    Refusal.PROOF_UNKNOWN: "There is no proof for {task}.",
    Refusal.TRANSITION_UNKNOWN: "A task that is {state} does not know {event}.",
    Refusal.DEPENDENCY_UNKNOWN: "The dependency {task} does not exist.",
    Refusal.LEASE_STALE: "The lease has ended or was given to somebody else; this write changes nothing.",
    Refusal.LEASE_NOT_YOURS: "The lease belongs to another worker.",
    Refusal.DELIVERABLE_MISMATCH: "The task asks for {deliverable}; {kind} cannot close it.",
    Refusal.EVIDENCE_INVALID: "The evidence is not valid at {field}: {problem}.",
    Refusal.EVIDENCE_TOO_LARGE: "The evidence is larger than the limit of {limit} bytes.",
    Refusal.BUNDLE_MISSING: "The evidence names a bundle, and none was handed in under this lease.",
    Refusal.BUNDLE_INVALID: "The bundle is not a readable git bundle: {problem}.",
    Refusal.BUNDLE_TOO_LARGE: "The bundle is larger than the limit of {limit} bytes.",
    Refusal.HEAD_NOT_IN_BUNDLE: "The head {head} is not a tip of the bundle.",
    Refusal.HEAD_NOT_ON_REMOTE: "The remote's {ref} is {found}, not the evidence's head {head}.",
    Refusal.SLOT_LOST: "The land slot is no longer held under token {token}.",
    Refusal.INTENT_NOT_ADMITTED: "The intent is not admitted: {problem}.",
    Refusal.CONTRACT_BROKEN: "The contract cannot be read at line {line}: {problem}.",
    Refusal.CONTRACT_MISSING: "There is no {path} at {sha}.",
    Refusal.EVIDENCE_MOVED_ON: "The decision names evidence that is no longer the current one: {problem}.",
    Refusal.NOTHING_TO_WAVE: "The review of {task} asks no person for anything, or a person has answered it.",
    Refusal.FORCE_COMPLETE_REFUSED: "A code task is completed by a verified proof of landing, and by nothing else.",
    Refusal.PROOF_REFUSED: "The proof fails step {step}: {problem}.",
    Refusal.BOOTSTRAP_DONE: "The first token was made already; an admin creates further ones.",
}


def sentence(refusal: Refusal, facts: Mapping[str, object]) -> str:
    """The one sentence for a refusal. A fact that is missing shows as `?`, so that an error never hides another."""
    return _SENTENCES[refusal].format_map(_Lenient(facts))


class _Lenient(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"
