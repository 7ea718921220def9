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
    """One line of the closing table. Times run from the check being green."""

    scene: str
    state: str
    method: str = "–"
    tip_guard: str = "–"
    calls: str = "–"
    landed: str = "–"
    proven: str = "–"


def lands(world: World, say: Say) -> Row:
    """A change with a required check lands, and its proof holds against a fresh clone."""
    task = ask(world, "hub", "Ada was here")
    say(f"created {short(task)} with mac")
    work(world, AGENT)
    say("mac-executor leased it, worked, ran the contract's test, handed in a bundle")
    done = follow(world, task, say)
    verify(world, task, "acme/hub")
    say("mac proof verify: all ten steps hold against a fresh clone")
    told = row(world, "required checks: lands", done)
    must(int(told.calls) <= CALLS_MAX, f"{told.calls} GitHub calls from green to proof, more than {CALLS_MAX}")
    return told


AGENT = (sys.executable, "tests/demo/agent.py")


def ask(world: World, project: str, title: str, deliverable: str = "code") -> str:
    """Create a task with `mac`."""
    body = "Write yourself into the guest book."
    words = ("--project", project, "--title", title, "--body", body, "--deliverable", deliverable)
    return str(world.mac("task", "create", *words)["id"])


def work(world: World, command: tuple[str, ...], **environment: str) -> None:
    """Let `mac-executor` take one lease and run this command for it."""
    given = {"MAC_HUB_URL": world.hub, "MAC_TOKEN": world.executor, **environment}
    argv = [str(HERE / "mac-executor"), "--once", "--workdir", str(world.programs.folder / "executor"), "--"]
    whole = [str(world.programs.root / word) if word.startswith("tests/") else word for word in command]
    world.programs.run("executor", [*argv, *whole], given)


def follow(world: World, task: str, say: Say) -> dict[str, Any]:
    """Tell what happens to a task until it is completed; the task then."""
    seen: set[str] = set()
    found: dict[str, Any] = until(
        lambda: _completed(world, task, seen, say), f"{short(task)} to complete", 90, world.programs.check
    )
    return found


def waits(world: World, task: str, reason: str) -> dict[str, Any]:
    """Wait until the hub gives this reason for what it does with a task; its whole answer."""

    def asked() -> dict[str, Any] | None:
        why: dict[str, Any] = world.mac("task", "why", task)
        return why if why["reason"] == reason else None

    found: dict[str, Any] = until(asked, f"{short(task)} to be at {reason}", 60, world.programs.check)
    return found


def head_of(world: World, task: str) -> str:
    """What the hub pushed for a task."""
    return str(world.mac("task", "show", task)["head"])


def must(condition: object, otherwise: str) -> None:
    """Hold what the scene is about."""
    if not condition:
        raise DemoFailed(otherwise)


def _completed(world: World, task: str, seen: set[str], say: Say) -> dict[str, Any] | None:
    found: dict[str, Any] = world.mac("task", "show", task)
    for event in world.mac("task", "timeline", task):
        told = _told(event)
        if told is not None and told not in seen:
            seen.add(told)
            say(told)
    if found["state"] in ("failed", "cancelled"):
        raise DemoFailed(f"the task is {found['state']}: {world.mac('task', 'why', task)}")
    return found if found["state"] == "completed" else None


def _told(event: dict[str, Any]) -> str | None:
    facts = event["facts"]
    sentences = {
        "head_pushed": "the hub pushed the branch",
        "pull_request_opened": f"the hub opened pull request #{facts.get('number')}",
        "verdict_approved": "the gate approved the evidence",
        "decided_wait": f"the hub waits: {event['reason']} {facts.get('context', '')}".rstrip(),
        "decided_send_back": f"sent back: {event['reason']}",
        "decided_block": f"blocked: {event['reason']}",
        "head_updated": "the hub brought the branch up to date",
        "intent_committed": "the hub committed its intent to land",
        "landed": "landed, read back, and proven",
    }
    return sentences.get(event["event"])


def verify(world: World, task: str, repository: str) -> None:
    """Check the proof against the remote as it is now, with the key that was noted before anything landed."""
    argv = [str(HERE / "mac"), "proof", "verify", task, "--clone", f"{world.github}/{repository}.git", "--key", world.key]
    given = {"MAC_HUB_URL": world.hub, "MAC_TOKEN": world.admin, "MAC_GIT_TOKEN": world.person}
    world.programs.run("verify", argv, given)


def row(world: World, scene: str, task: dict[str, Any]) -> Row:
    """The row of a task that landed: counted and timed from the CI App's last word to the proof."""
    proof = world.mac("proof", "show", task["id"])
    log = world.control("GET", "requests")["requests"]
    proven = next(_ms(e["at"]) for e in world.mac("task", "timeline", task["id"]) if e["event"] == "landed")
    said = [r["at_ms"] for r in log if r["caller"] == "installation:ci-app" and "check-runs" in r["path"]]
    begun = max((at for at in said if at <= proven), default=proof["gate"]["read_at"])
    green = begun if proof["gate"]["checks"] else proof["gate"]["read_at"]
    ours = [r for r in log if r["caller"] == "installation:mac-hub" and green <= r["at_ms"] <= proven]
    calls = [r for r in ours if not r["route"].startswith("git ")]
    moves = [r["at_ms"] for r in ours if r["route"] == "git git-receive-pack" or r["path"].endswith("/merge")]
    must(moves, "the branch moved, but the hub did not move it")
    landed = f"{max(moves) - green} ms"
    return Row(scene, task["state"], proof["method"], proof["tip_guard"], str(len(calls)), landed, f"{proven - green} ms")


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def short(identifier: str) -> str:
    """An id as people read it."""
    return identifier[:12]
