"""The scenes in which life happens: a tip that moves, a red check, a merge by hand, a killed worker, a report, a queue."""

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.demo.programs import until
from tests.demo.scenes import AGENT, Row, Say, ask, follow, head_of, must, row, short, verify, waits, work
from tests.demo.world import World

REPORT = "The guest book has no order, two guests stand in it twice, and nobody reads the lines that were added by hand."


def sent_back(world: World, say: Say) -> Row:
    """Without required checks the tip moves under the change: the same task comes back, rebased, and lands."""
    task = ask(world, "plain", "Grace was here")
    work(world, (sys.executable, "tests/demo/moving_agent.py"), DEMO_CONTROL=f"{world.github}/_sandbox")
    say("while mac-executor worked, somebody pushed to main")
    until(
        lambda: world.mac("task", "show", task)["directive"], "the task to be sent back", 60, world.programs.check
    )
    say("the hub sent the task back: rebase onto the tip")
    work(world, AGENT)
    say("mac-executor took the same task up again, rebased, and ran the test again")
    done = follow(world, task, say)
    must(done["attempts"] == 2 and done["sent_back"] == 1, "it was not the same task that came back once")
    verify(world, task, "acme/plain")
    return row(world, "tip moves: sent back, lands", done)


def check_fails(world: World, say: Say) -> Row:
    """A required check fails: blocked, with one reason everywhere; re-run to green, it goes on by itself."""
    task = ask(world, "hub", "Linus was here")
    world.script_ci("failure")
    work(world, AGENT)
    why = waits(world, task, "check_failed")
    api = _api(world, "GET", f"/v1/tasks/{task}/why")
    must(api["reason"] == why["reason"], "API and command line differ")
    head = head_of(world, task)
    until(lambda: _title(world, head) == "block: check_failed", "the check run to say so", 20, world.programs.check)
    say(f"blocked, and the check run, the command line and the API all say {why['reason']}: {why['sentence']}")
    world.ci_reports("acme/hub", head, "success")
    done = follow(world, task, say)
    return row(world, "check fails, re-run, lands", done)


def merged_by_hand(world: World, say: Say) -> Row:
    """Somebody merges by hand: there is no proof, and to force the completion is refused by name."""
    task = ask(world, "hub", "Ken was here")
    world.script_ci("never")
    work(world, AGENT)
    waits(world, task, "checks_pending")
    world.control("POST", "repositories/acme/hub/refs", {"ref": "refs/heads/main", "sha": head_of(world, task)})
    say("somebody pushed the change to main by hand")
    why = waits(world, task, "already_contained")
    must(world.refused("proof", "show", task) == "proof_unknown", "there is a proof of something the hub did not land")
    code = _refusal(world, "POST", f"/v1/tasks/{task}/force-complete")
    must(code == "force_complete_refused", f"forcing it was answered with {code}")
    say(f"no proof; the hub says: {why['sentence']} Forcing it: {code}")
    return Row("merged by hand: no proof", world.mac("task", "show", task)["state"])


def worker_killed(world: World, say: Say) -> Row:
    """The worker and its child are killed after the ref moved and before it was recorded: one landing, and a proof."""
    task = ask(world, "hub", "Barbara was here")
    world.script_ci("never")
    work(world, AGENT)
    waits(world, task, "checks_pending")
    head = head_of(world, task)
    order = {"method": "POST", "path": "/acme/hub.git/git-receive-pack", "hold": "after"}
    number = world.control("POST", "orders", order)["id"]
    world.ci_reports("acme/hub", head, "success")
    world.control("POST", f"orders/{number}/wait", {"timeout_s": 30})
    must(world.tip("acme/hub") == head, "the branch has not moved yet")
    killed = _kill_worker(world)
    world.control("POST", f"orders/{number}/release", {})
    say(f"main moved; the worker and its {killed - 1} child were killed before they heard of it")
    done = follow(world, task, say)
    refs = world.control("GET", "repositories/acme/hub/refs")
    must(sum(sha == head for ref, sha in refs.items() if ref == "refs/heads/main") == 1, "main is not at the change")
    landings = [e for e in world.mac("task", "timeline", task) if e["event"] in ("landed", "intent_committed")]
    must(len(landings) == 2, f"not one intent and one landing: {landings}")
    verify(world, task, "acme/hub")
    say("after the restart: one intent, one landing, and a proof that holds")
    return Row("worker killed: one landing", done["state"], "fast_forward", "atomic_push")


def reported(world: World, say: Say) -> Row:
    """A report is approved by a fixed rule and completes without a landing; prose does not close code."""
    tip = world.tip("acme/plain")
    code = ask(world, "plain", "Write code")
    lease = _api(world, "POST", "/v1/leases", {}, executor=True)
    must(lease["task"]["id"] == code, "another task was leased")
    prose = {"schema": "mac.evidence.v1", "kind": "operator_result", "summary": REPORT, "files": [], "runs": []}
    refused = _refusal(world, "POST", f"/v1/leases/{lease['lease']['id']}/evidence", prose, lease=lease)
    must(refused == "deliverable_mismatch", f"code was closed by prose: {refused}")
    given_back = {"class": "withdrawn", "sentence": "only to see it refused"}
    _api(world, "POST", f"/v1/leases/{lease['lease']['id']}/release", given_back, executor=True, lease=lease)
    task = ask(world, "plain", "Look into the guest book", "report")
    work(world, (sys.executable, "-c", f"print({REPORT!r})"))
    done = follow(world, task, say)
    must(world.tip("acme/plain") == tip, "a report moved the branch")
    say(f"approved and completed without a landing; code closed by prose: {refused}")
    return Row("report: no landing", done["state"])


def brought_up_to_date(world: World, say: Say) -> Row:
    """Pull requests required, checks strict: the second change is brought up to date, tested again, merged by GitHub."""
    world.control("POST", "repositories/acme/hub/rulesets", {"pull_request": True, "name": "pull requests"})
    say("the owner now requires pull requests on acme/hub")
    first = ask(world, "hub", "Edsger was here")
    work(world, (sys.executable, "tests/demo/agent.py", "first.md"))
    second = ask(world, "hub", "Tony was here")
    work(world, (sys.executable, "tests/demo/agent.py", "second.md"))
    follow(world, first, say)
    done = follow(world, second, say)
    proof = world.mac("proof", "show", second)
    must(proof["tip_guard"] == "strict_protection", f"it landed under {proof['tip_guard']}")
    must(len(proof["updates"]) == 1, "the hub did not bring it up to date")
    verify(world, second, "acme/hub")
    return row(world, "behind: updated, merged", done)


def _kill_worker(world: World) -> int:
    """SIGKILL the publication worker and its children, by their ids; how many there were."""
    lines = (world.programs.folder / "hub.log").read_text().splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    pid = [e["pid"] for e in events if e["event"] == "part_started" and e["part"] == "worker"][-1]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for victim in (pid, *map(int, children)):
        os.kill(victim, signal.SIGKILL)
    return 1 + len(children)


def _title(world: World, head: str) -> str:
    runs = _github(world, f"/repos/acme/hub/commits/{head}/check-runs?check_name=mac/landing")["check_runs"]
    return str(runs[0]["output"]["title"]) if runs else ""


def _github(world: World, path: str) -> Any:
    request = urllib.request.Request(world.github + path, headers={"Authorization": f"Bearer {world.person}"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def _send(
    world: World, how: tuple[str, str], body: Any, token: str, lease: dict[str, Any] | None
) -> tuple[int, dict[str, Any]]:
    method, path = how
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    headers["Idempotency-Key"] = os.urandom(8).hex()
    if lease is not None:
        headers["Mac-Lease-Token"] = str(lease["lease"]["token"])
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(world.hub + path, content, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def _api(
    world: World, method: str, path: str, body: Any = None, *, lease: dict[str, Any] | None = None, executor: bool = False
) -> dict[str, Any]:
    status, said = _send(world, (method, path), body, world.executor if executor else world.admin, lease)
    must(status < 300, f"{method} {path}: {status} {said}")
    return said


def _refusal(world: World, method: str, path: str, body: Any = None, *, lease: dict[str, Any] | None = None) -> str:
    status, said = _send(world, (method, path), body or {}, world.executor if lease else world.admin, lease)
    must(status >= 400, f"{method} {path} was not refused")
    return str(said["code"])


__all__ = ["brought_up_to_date", "check_fails", "merged_by_hand", "reported", "sent_back", "short", "worker_killed"]
