"""The land slot: the exclusive, expiring, fenced right to move refs for one canonical branch.

A `LandSlot` can be made here only, so a function that asks for one cannot be called without holding the right; each
write under it names the token again, because the right may have been lost since.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select, update

from ledger import history
from ledger.session import Ledger, Transaction
from ledger.tables import land_slots
from ledger.upsert import insert_absent
from pipeline.canonical import Json
from pipeline.errors import InvariantBroken, Rejected
from pipeline.refusals import Refusal

_KEY = object()


@dataclass(frozen=True, slots=True)
class Holder:
    """One process on one boot of one host. `started_at` is the process's start as the host counts it, so that a process
    id that was used again is not mistaken for it."""

    host: str
    boot_id: str
    pid: int
    started_at: int


@dataclass(frozen=True, slots=True)
class LandSlot:
    """The right itself. Holding the object is not enough: it is lost at `expires_at`, or when a larger token was
    given."""

    branch_id: str
    token: int
    holder: Holder
    expires_at: int
    _made_here: object = None

    def __post_init__(self) -> None:
        """Refuse an object that was not made by this module."""
        if self._made_here is not _KEY:
            raise InvariantBroken("a land slot is taken from the ledger, not made")


def _never_gone(_holder: Holder) -> bool:
    return False


def take_slot(
    ledger: Ledger, branch_id: str, holder: Holder, *, gone: Callable[[Holder], bool] = _never_gone
) -> LandSlot | None:
    """The slot of the branch, or None while somebody else holds it.

    It is free when it was released, when it has expired, or when `gone` says that its holder, on this same host, is
    provably no longer there. The token grows each time. A holder that asks again gets a new token.
    """
    with ledger.write() as tx:
        now = tx.now()
        row = _locked(tx, branch_id, holder, now)
        before = _holder(row)
        free = not row.held or row.expires_at <= now or before == holder
        followed = not free and before.host == holder.host and gone(before)
        if not (free or followed):
            return None
        token, expires_at = row.token + 1, now + tx.bounds.land_slot_ms
        guarded = update(land_slots).where(land_slots.c.branch_id == branch_id, land_slots.c.token == row.token)
        done = tx.connection.execute(
            guarded.values(token=token, held=True, taken_at=now, expires_at=expires_at, **_columns(holder))
        )
        if done.rowcount != 1:
            return None
        if row.held and before != holder:
            _note_follow(tx, branch_id, before, expired=row.expires_at <= now)
        return LandSlot(branch_id, token, holder, expires_at, _KEY)


def renew(ledger: Ledger, slot: LandSlot) -> LandSlot:
    """The same slot for longer. Raises `Rejected(slot_lost)` once it has expired or was given on, and changes
    nothing."""
    with ledger.write() as tx:
        now = tx.now()
        expires_at = now + tx.bounds.land_slot_ms
        mine = update(land_slots).where(*_still(slot, now))
        if tx.connection.execute(mine.values(expires_at=expires_at)).rowcount != 1:
            raise Rejected(Refusal.SLOT_LOST, {"token": slot.token})
        return LandSlot(slot.branch_id, slot.token, slot.holder, expires_at, _KEY)


def release_slot(ledger: Ledger, slot: LandSlot) -> bool:
    """Give the slot back; whether it was still held under this token. The token stays, so the next one is larger."""
    with ledger.write() as tx:
        mine = update(land_slots).where(
            land_slots.c.branch_id == slot.branch_id, land_slots.c.token == slot.token, land_slots.c.held == 1
        )
        return tx.connection.execute(mine.values(held=False)).rowcount == 1


def require_slot(tx: Transaction, slot: LandSlot) -> None:
    """Hold, in this transaction, that the slot is still ours; the row stays locked until it ends. Raises
    `Rejected(slot_lost)`."""
    query = select(land_slots.c.token).where(land_slots.c.branch_id == slot.branch_id).with_for_update()
    tx.connection.execute(query)
    if tx.connection.execute(query.where(*_still(slot, tx.now()))).one_or_none() is None:
        raise Rejected(Refusal.SLOT_LOST, {"token": slot.token})


def _still(slot: LandSlot, now: int) -> tuple[Any, ...]:
    c = land_slots.c
    return c.branch_id == slot.branch_id, c.token == slot.token, c.held == 1, c.expires_at > now


def _locked(tx: Transaction, branch_id: str, holder: Holder, now: int) -> Row[Any]:
    empty = {"branch_id": branch_id, "token": 0, "held": False, "taken_at": now, "expires_at": now}
    insert_absent(tx, land_slots, empty | _columns(holder))
    return tx.connection.execute(select(land_slots).where(land_slots.c.branch_id == branch_id).with_for_update()).one()


def _holder(row: Row[Any]) -> Holder:
    return Holder(row.host, row.boot_id, row.pid, row.started_at)


def _columns(holder: Holder) -> dict[str, Any]:
    return {"host": holder.host, "boot_id": holder.boot_id, "pid": holder.pid, "started_at": holder.started_at}


def _note_follow(tx: Transaction, branch_id: str, before: Holder, *, expired: bool) -> None:
    facts: dict[str, Json] = {"host": before.host, "pid": before.pid, "expired": expired}
    history.write(tx, subject="branch", subject_id=branch_id, event="slot_followed", facts=facts, actor="hub")
