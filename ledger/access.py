"""Who may do what: random tokens, stored as digests only, each with one scope."""

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import func, insert, select, update

from ledger import history
from ledger.roster import worker
from ledger.session import Transaction
from ledger.tables import tokens
from pipeline.errors import Rejected, ensure
from pipeline.refusals import Refusal

SECRET_BYTES = 32


class Scope(StrEnum):
    """What a token covers. Read is part of operator, operator of admin; executor and batch stand apart."""

    READ = "read"
    OPERATOR = "operator"
    ADMIN = "admin"
    EXECUTOR = "executor"
    BATCH = "batch"


_BOUND = frozenset({Scope.EXECUTOR, Scope.BATCH})


@dataclass(frozen=True, slots=True)
class Actor:
    """Who is asking. `name` stands in history; `worker_id` is set for the scopes that are bound to one worker."""

    token_id: str
    name: str
    scope: Scope
    worker_id: str | None


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token. `secret` is shown once and cannot be read again."""

    token_id: str
    secret: str
    scope: Scope
    worker_id: str | None


def bootstrap(tx: Transaction, *, actor: str) -> Issued:
    """The first token, of scope admin. Raises `Rejected(bootstrap_done)` when there has been any token, revoked or
    not."""
    if tx.connection.execute(select(func.count()).select_from(tokens)).scalar_one():
        raise Rejected(Refusal.BOOTSTRAP_DONE)
    return issue(tx, scope=Scope.ADMIN, label="bootstrap", actor=actor)


def issue(tx: Transaction, *, scope: Scope, label: str, actor: str, worker_name: str | None = None) -> Issued:
    """A new token. Executor and batch tokens are bound to the worker of that name, which is made when it is new.
    Raises `Rejected(field_invalid)` when a worker is named for another scope, or is missing."""
    if (scope in _BOUND) != (worker_name is not None):
        problem = "executor and batch tokens, and only these, name a worker"
        raise Rejected(Refusal.FIELD_INVALID, {"field": "worker", "problem": problem})
    worker_id = None if worker_name is None else worker(tx, worker_name).id
    token_id, secret = tx.new_id("token"), secrets.token_urlsafe(SECRET_BYTES)
    tx.connection.execute(
        insert(tokens).values(
            id=token_id,
            sha256=_digest(secret),
            scope=scope.value,
            worker_id=worker_id,
            label=label,
            created_at=tx.now(),
        )
    )
    facts = {"scope": scope.value, "label": label, "worker": worker_id}
    history.write(tx, subject="token", subject_id=token_id, event="token_issued", actor=actor, facts=facts)
    return Issued(token_id, secret, scope, worker_id)


def revoke(tx: Transaction, token_id: str, *, actor: str) -> None:
    """From now on the token is unknown. Repeating it changes nothing. Raises `Rejected(token_unknown)`."""
    found = tx.connection.execute(select(tokens.c.revoked_at).where(tokens.c.id == token_id)).one_or_none()
    if found is None:
        raise Rejected(Refusal.TOKEN_UNKNOWN)
    live = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
    if tx.connection.execute(live.values(revoked_at=tx.now())).rowcount == 1:
        history.write(tx, subject="token", subject_id=token_id, event="token_revoked", actor=actor)


def who(tx: Transaction, secret: str) -> Actor:
    """Who holds this secret. Raises `Rejected(token_unknown)` for one that is unknown or revoked, without saying which.

    The look-up is by digest, so how long it takes tells nothing about a secret.
    """
    query = select(tokens).where(tokens.c.sha256 == _digest(secret), tokens.c.revoked_at.is_(None))
    row = tx.connection.execute(query).one_or_none()
    if row is None:
        raise Rejected(Refusal.TOKEN_UNKNOWN)
    ensure(row.revoked_at is None, "a revoked token was not selected")
    return Actor(row.id, f"{row.label} ({row.id})", Scope(row.scope), row.worker_id)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
