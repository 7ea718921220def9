"""What a refusal looks like over HTTP: `application/problem+json` with a stable code, a sentence and facts.

One table gives every refusal its status. A test holds it against the vocabulary, so a new refusal without a status
cannot be merged, and no view chooses a status of its own.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

import structlog
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from pipeline.errors import FactValue, InvariantBroken, Rejected, Unavailable
from pipeline.refusals import Refusal

MEDIA_TYPE = "application/problem+json"

STATUS: Mapping[Refusal, HTTPStatus] = MappingProxyType(
    {
        Refusal.SIGNATURE_MISSING: HTTPStatus.UNAUTHORIZED,
        Refusal.SIGNATURE_WRONG: HTTPStatus.UNAUTHORIZED,
        Refusal.BODY_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        Refusal.BODY_NOT_JSON: HTTPStatus.BAD_REQUEST,
        Refusal.DELIVERY_HEADERS_MISSING: HTTPStatus.BAD_REQUEST,
        Refusal.FIELD_INVALID: HTTPStatus.BAD_REQUEST,
        Refusal.TOKEN_MISSING: HTTPStatus.UNAUTHORIZED,
        Refusal.TOKEN_UNKNOWN: HTTPStatus.UNAUTHORIZED,
        Refusal.SCOPE_MISSING: HTTPStatus.FORBIDDEN,
        Refusal.ROUTE_UNKNOWN: HTTPStatus.NOT_FOUND,
        Refusal.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
        Refusal.IDEMPOTENCY_KEY_REUSED: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.PROJECT_UNKNOWN: HTTPStatus.NOT_FOUND,
        Refusal.PROJECT_EXISTS: HTTPStatus.CONFLICT,
        Refusal.PROJECT_NOT_READY: HTTPStatus.CONFLICT,
        Refusal.APP_NOT_INSTALLED: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.BRANCH_UNKNOWN: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.MARKERS_REFUSED: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.TASK_UNKNOWN: HTTPStatus.NOT_FOUND,
        Refusal.ID_AMBIGUOUS: HTTPStatus.BAD_REQUEST,
        Refusal.LEASE_UNKNOWN: HTTPStatus.NOT_FOUND,
        Refusal.PROOF_UNKNOWN: HTTPStatus.NOT_FOUND,
        Refusal.TRANSITION_UNKNOWN: HTTPStatus.CONFLICT,
        Refusal.DEPENDENCY_UNKNOWN: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.LEASE_STALE: HTTPStatus.CONFLICT,
        Refusal.LEASE_NOT_YOURS: HTTPStatus.FORBIDDEN,
        Refusal.DELIVERABLE_MISMATCH: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.EVIDENCE_INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.EVIDENCE_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        Refusal.BUNDLE_MISSING: HTTPStatus.CONFLICT,
        Refusal.BUNDLE_INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.BUNDLE_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        Refusal.HEAD_NOT_IN_BUNDLE: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.HEAD_NOT_ON_REMOTE: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.SLOT_LOST: HTTPStatus.CONFLICT,
        Refusal.INTENT_NOT_ADMITTED: HTTPStatus.CONFLICT,
        Refusal.CONTRACT_BROKEN: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.CONTRACT_MISSING: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.EVIDENCE_MOVED_ON: HTTPStatus.CONFLICT,
        Refusal.NOTHING_TO_WAVE: HTTPStatus.CONFLICT,
        Refusal.FORCE_COMPLETE_REFUSED: HTTPStatus.CONFLICT,
        Refusal.PROOF_REFUSED: HTTPStatus.UNPROCESSABLE_ENTITY,
        Refusal.BOOTSTRAP_DONE: HTTPStatus.CONFLICT,
    }
)

_OF_THE_FRAMEWORK: Mapping[int, Refusal] = MappingProxyType(
    {
        HTTPStatus.NOT_FOUND: Refusal.ROUTE_UNKNOWN,
        HTTPStatus.METHOD_NOT_ALLOWED: Refusal.METHOD_NOT_ALLOWED,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: Refusal.BODY_TOO_LARGE,
    }
)

log = structlog.get_logger()


def problem(code: str, title: str, status: int, facts: Mapping[str, FactValue] | None = None) -> Response:
    """One answer of the media type. `facts` are plain values, safe to show to the caller."""
    document = {"code": code, "title": title, "facts": dict(facts or {})}
    return Response(json.dumps(document) + "\n", status=status, content_type=MEDIA_TYPE)


def install(app: Flask) -> None:
    """Answer every exception that a view lets out in this one shape; an unforeseen one says no more than 500."""
    app.register_error_handler(Rejected, _rejected)
    app.register_error_handler(Unavailable, _unavailable)
    app.register_error_handler(HTTPException, _of_the_framework)
    app.register_error_handler(Exception, _unforeseen)


def _rejected(refused: Exception) -> Response:
    assert isinstance(refused, Rejected)
    status = STATUS[refused.refusal]
    answer = problem(refused.code, str(refused), status, refused.facts)
    if refused.refusal in {Refusal.TOKEN_MISSING, Refusal.TOKEN_UNKNOWN}:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _unavailable(unavailable: Exception) -> Response:
    assert isinstance(unavailable, Unavailable)
    answer = problem(unavailable.code, str(unavailable), HTTPStatus.SERVICE_UNAVAILABLE)
    if unavailable.retry_after_ms is not None:
        answer.headers["Retry-After"] = str(-(-unavailable.retry_after_ms // 1000))  # whole seconds, rounded up
    return answer


def _of_the_framework(error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
    refusal = _OF_THE_FRAMEWORK.get(status)
    if refusal is not None:
        answer = _rejected(Rejected(refusal, _limit() if refusal is Refusal.BODY_TOO_LARGE else {}))
    else:
        answer = problem("request_invalid", error.name + ".", status)
    for name, value in error.get_headers():
        if name == "Allow":
            answer.headers[name] = value
    return answer


def _limit() -> dict[str, FactValue]:
    return {"limit": request.max_content_length}


def _unforeseen(error: Exception) -> Response:
    code = error.code if isinstance(error, InvariantBroken) else "unforeseen"
    log.error("request_failed", code=code, exc_info=error)
    return problem(code, "The hub failed on this request; its log says where.", HTTPStatus.INTERNAL_SERVER_ERROR)
