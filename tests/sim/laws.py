"""The laws, read beside the product's own code: after every commit, every push and every step.

Numbers: 0 no bug of ours shows itself · 1 what lands had one green gate on that very tip · 2 one landing, one slot ·
3 proof is what was put there and read there · 4 leases and counters · 5 nothing is lost or waits for ever · 6 a word of
an operator holds · 7 left alone, everything that can finish does.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ledger import proofs
from pipeline import proof
from tests.sim.forge import MAIN
from tests.sim.git import RefMove
from tests.sim.objects import Sha
from tests.sim.world import KEY, World
from workers import proving
from workers.clone import Remote
from workers.land import MARKERS, parse_marker

SENT_BACK_MAX: Final = 2
STICKY_ENDS: Final = frozenset(
    {
        "already_contained", "landed_unproven", "landed_unattributed", "rejected_for_good", "budget_spent",
        "send_backs_spent", "landings_refused", "check_never_finished", "front_time_spent",
    }
)  # fmt: skip


@dataclass(slots=True)
class Effect:
    """One move of the canonical branch by the hub."""

    intent: str
    task: str
    slot_token: int
    old: Sha
    new: Sha
    read: set[Sha] = field(default_factory=set)


class Laws:
    """Watches one world. What is broken is noted in `world.broken` as (law, sentence)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.effects: dict[str, Effect] = {}
        self.counters: dict[tuple[str, str], int] = {}
        self.waits: dict[str, tuple[Any, ...]] = {}
        self.proven: dict[str, str] = {}
        self.latest = 0
        self.intents = 0
        self.evidence = 0
        world.committed = self.committed
        world.remote.moved = self.pushed
        world.remote.shown = self.shown

    def broken(self, law: int, sentence: str) -> None:
        """Note a breach."""
        self.world.broken.append((law, sentence))

    # --- at every push

    def pushed(self, moves: list[RefMove]) -> None:
        """Somebody's push through git moves these refs: only the hub pushes that way."""
        by_ref = {ref: (old, new) for ref, old, new in moves}
        for ref, (old, new) in by_ref.items():
            stranger = self.world.strangers.get(ref)
            if ref.startswith("refs/heads/mac/") and stranger is not None and old == stranger[1]:
                self.broken(1, f"the hub pushes {ref} over a stranger's commit {old}")
            if new is None and not ref.startswith(f"{MARKERS}probe_"):
                self.broken(1, f"the hub removes {ref}")
        if MAIN in by_ref:
            old, new = by_ref[MAIN]
            markers = [ref.removeprefix(MARKERS) for ref in by_ref if ref.startswith(MARKERS)]
            if len(markers) != 1 or old is None or new is None:
                self.broken(1, f"the branch moves to {new} without exactly one marker")
            else:
                self._landing(markers[0], old, new)

    def _landing(self, intent_id: str, old: Sha, new: Sha) -> None:
        rows = self.world.memory.rows("SELECT * FROM intents WHERE id = ?", intent_id)
        if not rows:
            self.broken(1, f"the branch moves under {intent_id}, which was never committed")
            return
        row, store = rows[0], self.world.store
        fixed = json.loads(row["document"])
        if row["state"] != "open":
            self.broken(2, f"{intent_id} has an effect after it was settled as {row['state']}")
        if any(e.task == row["task_id"] for e in self.effects.values()):
            self.broken(2, f"{row['task_id']} lands a second time, by {intent_id}")
        if any(e.slot_token >= row["slot_token"] for e in self.effects.values()):
            self.broken(2, f"{intent_id} lands under a slot that is not newer than the last one's")
        if fixed["expected_tip"] != old or fixed["landed_sha"] != new:
            self.broken(1, f"{intent_id} moves the branch otherwise than it says")
        if not store.is_ancestor(old, new):
            self.broken(1, f"{intent_id} takes commits off the branch")
        self._tested(row, fixed, old, new)
        self.effects[intent_id] = Effect(intent_id, row["task_id"], row["slot_token"], old, new)

    def _tested(self, row: Any, fixed: Mapping[str, Any], old: Sha, new: Sha) -> None:
        """The tree that lands is the change on this tip and nothing else, and its gate was green there."""
        store, intent_id = self.world.store, row["id"]
        given = self.world.memory.rows("SELECT * FROM evidence WHERE id = ?", row["evidence_id"])[0]
        head, base, tested = given["head"], given["verified_base"], fixed["tested_sha"]
        tree = store.tree_of(new)
        if tree != store.tree_of(tested) or tree != fixed["tested_tree"]:
            self.broken(1, f"{intent_id} lands a tree that was not tested")
        if store.merge(old, head)[0] != tree:
            self.broken(1, f"{intent_id} lands something else than the change on its tip")
        if not store.is_ancestor(old, tested):
            self.broken(1, f"{intent_id} lands a head that was not tested on the tip")
        own = store.ancestors(head) - store.ancestors(base)
        updates = self.world.memory.rows(
            "SELECT document FROM intents WHERE kind = 'update' AND publication_id = ?", row["publication_id"]
        )
        own |= {json.loads(u["document"])["commit"] for u in updates} | {new}
        strange = store.ancestors(new) - store.ancestors(old) - own
        if strange:
            self.broken(1, f"{intent_id} brings commits that are neither on the tip nor of the change: {sorted(strange)}")
        runs = json.loads(given["document"])["runs"]
        if fixed["gate"]["kind"] == "required_checks":
            if tested not in self.world.town.green:
                self.broken(1, f"{intent_id} lands {tested}, whose required check was never green")
            red_at = self.world.town.red_at.get(tested)
            if red_at is not None and red_at < fixed["gate"]["read_at"] and not self.world.town.told_old:
                self.broken(1, f"{intent_id} lands {tested}, whose required check was red when it was read")
        elif self.world.plan.required or any(r["exit"] for r in runs) or base != old or tested != head:
            self.broken(1, f"{intent_id} lands on a verifier run that is not green on this tip")

    def shown(self, refs: dict[str, Sha]) -> None:
        """Somebody read these refs over git."""
        if MAIN in refs:
            for effect in self.effects.values():
                effect.read.add(refs[MAIN])

    # --- at every commit

    def committed(self) -> None:
        """A transaction was just committed; nothing else has happened since."""
        rows = self.world.memory.rows
        count = rows("SELECT count(*) AS n FROM intents")[0]["n"]
        if count > self.intents:
            self.intents = count
            self._admitted(rows(_ADMISSION)[0])
        count = rows("SELECT count(*) AS n FROM evidence")[0]["n"]
        if count > self.evidence:
            self.evidence = count
            self._taken(rows(_TAKEN, self.world.bounds.lease_grace_ms)[0])

    def _admitted(self, row: Any) -> None:
        """The intent that was just committed, and what stands beside it at this very moment."""
        wrong = [name for name in ("paused", "held", "stop_requested_at") if row[name]]
        if wrong or row["task_state"] != "landing":
            self.broken(6, f"{row['id']} is committed although the task is {row['task_state']} {wrong}")
        if row["newest"] != row["evidence_id"]:
            self.broken(6, f"{row['id']} is committed on evidence that is not the newest")
        if not row["slot_held"] or row["slot_now"] != row["slot_token"] or row["slot_until"] <= row["committed_at"]:
            self.broken(2, f"{row['id']} is committed without holding the land slot")
        if row["unsettled"] != 1:
            self.broken(2, f"{row['unsettled']} intents of the branch are open at once")

    def _taken(self, row: Any) -> None:
        """The evidence that was just taken in."""
        if not row["good"] or row["token"] != row["fence"] or row["number"] != row["attempts"]:
            self.broken(4, f"evidence {row['id']} was taken in under a lease that was over")

    # --- after every step

    def hold(self) -> None:
        """Read the whole ledger once."""
        self._counters()
        self._tasks()
        self._publications()
        self._proofs()

    def _counters(self) -> None:
        rows = self.world.memory.rows
        found = {
            ("task", f"{r['id']} {n}"): r[n]
            for r in rows("SELECT * FROM tasks")
            for n in ("attempts", "fence", "credits", "sent_back")
        }
        found |= {("slot", r["branch_id"]): r["token"] for r in rows("SELECT branch_id, token FROM land_slots")}
        found |= {("look", r["id"]): r["look_token"] for r in rows("SELECT id, look_token FROM publications")}
        for key, value in found.items():
            if value < self.counters.get(key, 0):
                self.broken(4, f"{key} went down from {self.counters[key]} to {value}")
            if key[1].endswith("sent_back") and value > SENT_BACK_MAX:
                self.broken(6, f"{key[1]}: {value}")
        self.counters |= found
        for row in rows("SELECT task_id, count(*) AS n FROM leases WHERE released_at IS NULL GROUP BY task_id HAVING n > 1"):
            self.broken(4, f"{row['task_id']} has {row['n']} live leases")

    def _tasks(self) -> None:
        for row in self.world.memory.rows(_TASKS):
            state = row["state"]
            if state in ("reviewing", "landing", "blocked") and row["live"] != 1:
                self.broken(5, f"{row['id']} is {state} and has {row['live']} publications")
            if row["leased"] != (state == "claimed") and state != "cancelled":
                self.broken(5, f"{row['id']} is {state} and has {row['leased']} leases")
            if state == "blocked" and not (row["reason"] and row["owner"]):
                self.broken(5, f"{row['id']} is blocked and nobody owns it")
            if row["attempts"] > row["max_attempts"] + row["credits"]:
                self.broken(4, f"{row['id']} was tried more often than its budget")
            if state == "failed" and row["attempts"] < row["max_attempts"] + row["credits"]:
                self.broken(5, f"{row['id']} failed with attempts left")
            if row["deliverable"] == "code" and (state == "completed") != (row["proofs"] == 1):
                self.broken(3, f"{row['id']} is {state} with {row['proofs']} proofs")

    def _publications(self) -> None:
        self.latest = latest = max(self.world.clock(), self.latest)
        for row in self.world.memory.rows(_WAITING):
            if row["decision"] and not row["owner"]:
                self.broken(5, f"{row['id']} waits and nobody owns it")
            if row["next_look_at"] > max(latest, row["since"]) + 2 * self.world.bounds.backoff_max_ms:
                self.broken(5, f"{row['id']} is not looked at before {row['next_look_at']}")
            if row["fresh"] and row["next_look_at"] > latest:
                self.broken(5, f"a fact arrived for {row['id']}, and it is not looked at before {row['next_look_at']}")
            wait, stands = (row["decision"], row["reason"], row["told"]), (row["since"], row["deadline"])
            before = self.waits.get(row["id"])
            if before is not None and before[0] == wait and before[1] != stands:
                self.broken(5, f"{row['id']}: start and deadline of {wait} moved from {before[1]} to {stands}")
            self.waits[row["id"]] = (wait, stands)

    def _proofs(self) -> None:
        found = {r["id"]: r for r in self.world.memory.rows("SELECT * FROM proofs ORDER BY sequence")}
        for proof_id in self.proven.keys() - found.keys():
            self.broken(3, f"{proof_id} is gone")
        previous: Any = None
        for number, row in enumerate(found.values(), start=1):
            if row["sequence"] != number or row["previous"] != (previous and previous["digest"]):
                self.broken(3, f"{row['id']} is not the next of its chain")
            previous = row
            if row["id"] not in self.proven:
                self.proven[row["id"]] = row["digest"]
                self._proof(row)
            elif self.proven[row["id"]] != row["digest"]:
                self.broken(3, f"{row['id']} was changed")

    def _proof(self, row: Any) -> None:
        said = proof.predicate_of(bytes(row["envelope"]))
        effect = self.effects.get(row["intent_id"])
        if effect is None or effect.new != said["landed_sha"]:
            self.broken(3, f"{row['id']} is about a landing that the hub did not make")
        elif not any(self.world.store.is_ancestor(effect.new, tip) for tip in effect.read):
            self.broken(3, f"{row['id']} is about a landing that was never read back")
        elif said["canonical_branch_sha"] not in effect.read:
            self.broken(3, f"{row['id']} names a reading that nobody made")

    # --- at the end

    def verify(self) -> None:
        """Hold every proof as a stranger would, with the public key and a clone; and every landing against them."""
        world = self.world
        with world.ledger.read() as tx:
            chain = proofs.chain(tx, world.branch)
        with world.places[0].mirrors.open(Remote(999, "http://127.0.0.1:1/acme/demo.git")) as mirror:
            for sha in (*world.refs.values(), *(e.new for e in self.effects.values())):
                world.remote.repository.take(sha)
                mirror.fetch({sha: f"refs/hub/audit/{sha}"})
            for one in chain:
                kind, tag = world.store.content[world.refs[f"{MARKERS}{one.intent_id}"]]
                assert kind == "tag"
                said = proof.predicate_of(one.envelope)
                facts = proving.git_facts(mirror, said, str(said["canonical_branch_sha"]), parse_marker(tag), [KEY.public])
                for step in proof.verify(one.envelope, [KEY.public], facts).failed:
                    self.broken(3, f"{one.id} does not verify: {step.number} {step.name}: {step.problem}")
        recorded = {r["id"]: r for r in world.memory.rows(_SETTLED)}
        for effect in self.effects.values():
            row = recorded[effect.intent]
            if row["state"] != "done" or (
                row["landing"] != "proven" and world.store.is_ancestor(effect.new, world.refs[MAIN])
            ):
                self.broken(3, f"{effect.intent} landed, and the ledger says {row['state']} {row['landing']}")

    def finished(self) -> list[str]:
        """Tasks that could go on and did not."""
        return [
            f"{r['id']} is {r['state']}: {r['reason']} ({r['decision']} {r['why']} {r['facts']})"
            for r in self.world.memory.rows(_UNFINISHED)
            if _could_finish(r)
        ]


def _could_finish(row: Any) -> bool:
    return not (row["state"] == "blocked" and row["sticky"] and row["reason"] in STICKY_ENDS)


_ADMISSION: Final = """
SELECT i.*, t.state AS task_state, t.held, t.stop_requested_at, p.paused, s.token AS slot_now, s.held AS slot_held,
  s.expires_at AS slot_until,
  (SELECT count(*) FROM intents o WHERE o.branch_id = i.branch_id AND o.state = 'open') AS unsettled,
  (SELECT e.id FROM evidence e WHERE e.task_id = i.task_id ORDER BY e.number DESC LIMIT 1) AS newest
FROM intents i JOIN tasks t ON t.id = i.task_id JOIN projects p ON p.id = t.project_id
JOIN land_slots s ON s.branch_id = i.branch_id ORDER BY i.rowid DESC LIMIT 1"""
_TAKEN: Final = """
SELECT e.id, e.number, t.attempts, t.fence, l.token,
  l.expires_at + ? > e.created_at AND l.released_at = e.created_at AS good
FROM evidence e JOIN leases l ON l.attempt_id = e.attempt_id JOIN tasks t ON t.id = e.task_id
ORDER BY e.rowid DESC LIMIT 1"""
_TASKS: Final = """
SELECT t.*, (SELECT count(*) FROM leases l WHERE l.task_id = t.id AND l.released_at IS NULL) AS leased,
  (SELECT count(*) FROM publications p WHERE p.task_id = t.id AND p.state <> 'closed') AS live,
  (SELECT p.owner FROM publications p WHERE p.task_id = t.id AND p.state <> 'closed') AS owner,
  (SELECT count(*) FROM proofs f WHERE f.task_id = t.id) AS proofs FROM tasks t"""
_WAITING: Final = """
SELECT p.*, (SELECT count(*) FROM history h WHERE h.subject_id = p.id AND h.event LIKE 'decided_%') AS told
FROM publications p WHERE p.state <> 'closed'"""
_SETTLED: Final = "SELECT i.id, i.state, p.landing FROM intents i JOIN publications p ON p.id = i.publication_id"
_UNFINISHED: Final = """
SELECT t.id, t.state, t.reason, p.sticky, p.decision, p.reason AS why, p.facts FROM tasks t
LEFT JOIN publications p ON p.task_id = t.id AND p.state <> 'closed'
WHERE t.state NOT IN ('completed', 'cancelled', 'failed')"""
