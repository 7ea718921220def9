"""The scenes of the demo, each told as it happens. A scene returns its row of the closing table, or raises `DemoFailed`."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.demo.programs import HERE, DemoFailed, until
from tests.demo.world import World

Say = Callable[[str], None]
CALLS_MAX = 10


@dataclass(frozen=True)
class Row:
    """One line of the closing table. Times are milliseconds from the check being green."""

    scene: str
    state: str
    method: str
    tip_guard: str
    calls: int
    landed_ms: int
    proven_ms: int


def lands(world: World, say: Say) -> Row:
    """A change with a required check lands, and its proof holds against a fresh clone."""
    project = world.mac("project", "add", "acme/hub", "--wait")
    say(f"registered acme/hub: {project['state']}, lands by {project['method']}")
    asked = {"--project": "hub", "--title": "Ada was here", "--body": "Write yourself into the guest book."}
    task = world.mac("task", "create", *[word for pair in asked.items() for word in pair])["id"]
    say(f"created {short(task)} with mac")
    _work(world)
    say("mac-executor leased it, worked, ran the contract's test, handed in a bundle")
    seen: set[str] = set()
    done = until(lambda: _follow(world, task, seen, say), f"{short(task)} to complete", 60, world.programs.check)
    proof = world.mac("proof", "show", task)
    _verify(world, task)
    say("mac proof verify: all ten steps hold against a fresh clone")
    return _row(world, done, proof)


def _work(world: World) -> None:
    given = {"MAC_HUB_URL": world.hub, "MAC_TOKEN": world.executor}
    argv = [str(HERE / "mac-executor"), "--once", "--workdir", str(world.programs.folder / "executor"), "--"]
    world.programs.run("executor", [*argv, sys.executable, str(world.programs.root / "tests" / "demo" / "agent.py")], given)


def _follow(world: World, task: str, seen: set[str], say: Say) -> dict[str, Any] | None:
    """Tell what is new on the task's timeline; the task once it is completed."""
    found: dict[str, Any] = world.mac("task", "show", task)
    for event in world.mac("task", "timeline", task):
        told = _told(event)
        if told is not None and told not in seen:
            seen.add(told)
            say(told)
    if found["state"] in ("blocked", "failed", "cancelled"):
        raise DemoFailed(f"the task is {found['state']}: {world.mac('task', 'why', task)}")
    return found if found["state"] == "completed" else None


def _told(event: dict[str, Any]) -> str | None:
    facts = event["facts"]
    sentences = {
        "head_pushed": "the hub pushed the branch",
        "pull_request_opened": f"the hub opened pull request #{facts.get('number')}",
        "verdict_approved": "the gate approved the evidence",
        "decided_wait": f"the hub waits: {event['reason']} {facts.get('context', '')}",
        "intent_committed": "the hub committed its intent to land",
        "landed": "landed, read back, and proven",
    }
    return sentences.get(event["event"])


def _verify(world: World, task: str) -> None:
    argv = [str(HERE / "mac"), "proof", "verify", task, "--clone", f"{world.github}/acme/hub.git", "--key", world.key]
    given = {"MAC_HUB_URL": world.hub, "MAC_TOKEN": world.admin, "MAC_GIT_TOKEN": world.person}
    world.programs.run("verify", argv, given)


def _row(world: World, task: dict[str, Any], proof: dict[str, Any]) -> Row:
    log = world.control("GET", "requests")["requests"]
    green = max(r["at_ms"] for r in log if r["caller"] == "installation:ci-app" and r["method"] == "PATCH")
    proven = next(_ms(e["at"]) for e in world.mac("task", "timeline", task["id"]) if e["event"] == "landed")
    ours = [r for r in log if r["caller"] == "installation:mac-hub" and green <= r["at_ms"] <= proven]
    calls = [r for r in ours if not r["route"].startswith("git ") and "access_tokens" not in r["route"]]
    pushes = [r["at_ms"] for r in ours if "receive-pack" in r["route"]]
    if not pushes:
        raise DemoFailed("the branch moved, but the hub did not push")
    if len(calls) > CALLS_MAX:
        raise DemoFailed(f"{len(calls)} GitHub calls from green to proof, more than {CALLS_MAX}")
    return Row(
        "required check",
        task["state"],
        proof["method"],
        proof["tip_guard"],
        len(calls),
        max(pushes) - green,
        proven - green,
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def short(identifier: str) -> str:
    """An id as people read it."""
    return identifier[:12]
