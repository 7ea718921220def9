"""From "check green" to "branch moved" and to "proof written", against the floor, in turn on one repository."""

import statistics
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jwt

from tests.bench import seed
from tests.bench.floor import Floor, Git
from tests.demo.programs import HERE, Programs, http, until
from tests.demo.world import HUB_PERMISSIONS, first_token, hub_settings, start_hub

RATIO_MAX = 2.0
CALLS_MAX = 10
CI_PERMISSIONS = {"checks": "write", "contents": "write", "metadata": "read"}


@dataclass(frozen=True)
class Landed:
    """One landing by the hub, in milliseconds from the check being green."""

    moved_ms: int
    proven_ms: int
    calls: int


@dataclass(frozen=True)
class Result:
    """All rounds of one run."""

    files: int
    commits: int
    hub: list[Landed]
    floor: list[Floor]

    @property
    def moved_ratio(self) -> float:
        return statistics.median(h.moved_ms for h in self.hub) / statistics.median(f.moved_ms for f in self.floor)

    @property
    def proven_ratio(self) -> float:
        """The proof against all git steps, reading back included."""
        return statistics.median(h.proven_ms for h in self.hub) / statistics.median(f.read_back_ms for f in self.floor)

    @property
    def calls(self) -> int:
        return max(h.calls for h in self.hub)

    @property
    def good(self) -> bool:
        return self.moved_ratio <= RATIO_MAX and self.proven_ratio <= RATIO_MAX and self.calls <= CALLS_MAX


def measure(folder: Path, root: Path, *, files: int, commits: int, rounds: int) -> Result:
    """Seed, start a sandbox and a hub as processes, and land in turn. One round of each comes first and is not counted."""
    programs = Programs(folder, root)
    try:
        bench = Bench(programs, files, commits)
        hub, floor = [], []
        for number in range(rounds + 1):
            floor.append(bench.floor_round(number))
            hub.append(bench.hub_round(number))
        return Result(files, commits, hub[1:], floor[1:])
    finally:
        programs.end()


class Bench:
    """A hub and a sandbox with one big repository, and the two who land on it in turn."""

    def __init__(self, programs: Programs, files: int, commits: int) -> None:
        self.programs, folder = programs, programs.folder
        seed.make(folder / "seed.git", files=files, commits=commits)
        log = programs.start("github", [sys.executable, "-m", "tests.sandbox", "--home", str(folder / "github")])
        self.github = str(programs.ready_line(log)["url"])
        self._control("repositories", {"name": "acme/big", "source": str(folder / "seed.git")})
        self.ci = self._control("apps", {"slug": "ci-app", "owner": "acme", "permissions": CI_PERMISSIONS})
        check = {"context": "ci/test", "app_id": self.ci["id"]}
        self._control("repositories/acme/big/rulesets", {"required_checks": [check]})
        app = self._control("apps", {"slug": "mac-hub", "owner": "acme", "permissions": HUB_PERMISSIONS})
        environment = hub_settings(self.github, app, folder)
        self._control(
            f"apps/{app['id']}/webhook",
            {"url": f"{environment['MAC_PUBLIC_URL']}/github/webhook", "secret": app["secret"]},
        )
        self.url = start_hub(programs, environment)
        self.admin = first_token(programs, environment)
        self._api("POST", "/v1/projects", {"name": "big", "owner": "acme", "repository": "big"})
        until(self._ready, "the repository to be read", 60, programs.check)
        wanted = {"scope": "executor", "label": "bench", "worker": "bench"}
        self.executor = str(self._api("POST", "/v1/tokens", wanted)["token"])
        self.git = Git(folder, f"{self.github}/acme/big.git", self._ci_token())

    def _ready(self) -> bool:
        return bool(self._api("GET", "/v1/projects/big")["state"] == "ready")

    def floor_round(self, number: int) -> Floor:
        """The floor obeys the same rule: its commit bears the check before it is pushed, which is not timed."""
        tip = self.git.tip()
        head = self.git.propose(number)
        self._green(head)
        return self.git.land(number, tip)

    def hub_round(self, number: int) -> Landed:
        """A task is worked on by `mac-executor`; the time runs from the check being green."""
        task = str(self._api("POST", "/v1/tasks", {"project": "big", "title": f"Change {number}"})["id"])
        environment = {"MAC_HUB_URL": self.url, "MAC_TOKEN": self.executor}
        argv = [str(HERE / "mac-executor"), "--once", "--workdir", str(self.programs.folder / "executor"), "--"]
        self.programs.run("executor", [*argv, "sh", "-c", f"echo {number} > hub-{number}.txt"], environment)
        head = until(lambda: self._waiting_head(task), "the hub to wait for the check", 60, self.programs.check)
        green = self._green(head)
        until(lambda: self._completed(task), "the change to land", 60, self.programs.check)
        return self._landed(task, green)

    def _landed(self, task: str, green: int) -> Landed:
        log = http("GET", f"{self.github}/_sandbox/requests")["requests"]
        rows = self._api("GET", f"/v1/tasks/{task}/timeline")["rows"]
        proven = next(_ms(row["at"]) for row in rows if row["event"] == "landed")
        ours = [r for r in log if r["caller"] == "installation:mac-hub" and green <= r["at_ms"] <= proven]
        moved = max(r["at_ms"] for r in ours if r["route"] == "git git-receive-pack")
        calls = [r for r in ours if not r["route"].startswith("git ")]
        return Landed(moved - green, proven - green, len(calls))

    def _waiting_head(self, task: str) -> str | None:
        why = self._api("GET", f"/v1/tasks/{task}/why")
        if why["reason"] != "checks_pending":
            return None
        return str(self.git.remote(f"refs/heads/mac/{task.removeprefix('task_')}"))

    def _completed(self, task: str) -> bool:
        found = self._api("GET", f"/v1/tasks/{task}")
        assert found["state"] in ("landing", "completed"), self._api("GET", f"/v1/tasks/{task}/why")
        return bool(found["state"] == "completed")

    def _green(self, head: str) -> int:
        """Report the check green; the moment at which GitHub had it, in milliseconds."""
        body = {"name": "ci/test", "head_sha": head, "status": "completed", "conclusion": "success"}
        http("POST", f"{self.github}/repos/acme/big/check-runs", body, self._ci_token())
        log = http("GET", f"{self.github}/_sandbox/requests")["requests"]
        return max(int(r["at_ms"]) for r in log if r["method"] == "POST" and r["path"].endswith("/check-runs"))

    def _ci_token(self) -> str:
        now_s = int(time.time())
        claims = {"iat": now_s - 30, "exp": now_s + 300, "iss": str(self.ci["id"])}
        signed = jwt.encode(claims, self.ci["private_key"], algorithm="RS256")
        path = f"/app/installations/{self.ci['installation_id']}/access_tokens"
        return str(http("POST", self.github + path, {}, signed)["token"])

    def _control(self, path: str, body: dict[str, Any]) -> Any:
        return http("POST", f"{self.github}/_sandbox/{path}", body)

    def _api(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return http(method, self.url + path, body, self.admin)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
