"""The forge in this process: REST answers from one small world, given where PyGithub's requester would have sent them.

Everything above the transport is the product's own code. Each request is a seam.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

from github.GithubException import GithubException

from tests.sim.baton import Baton, Fault
from tests.sim.git import RemoteRefs
from tests.sim.objects import Sha

API: Final = "http://127.0.0.1:1"
CLONE: Final = "http://127.0.0.1:1/acme/demo.git"
APP, CI_APP, REPOSITORY, INSTALLATION = 11, 12, 1001, 5
MAIN: Final = "refs/heads/main"
GRANTED: Final = {
    "administration": "read", "checks": "write", "contents": "write", "metadata": "read", "pull_requests": "write",
    "statuses": "read",
}  # fmt: skip
REQUIRED: Final = "ci/test"
PAGE: Final = 2  # small pages, so that a list of check runs has several


@dataclass(slots=True)
class Pull:
    """A pull request, as people see it."""

    number: int
    head_ref: str
    base: str
    open: bool = True
    merged: bool = False
    head_sha: Sha = ""


@dataclass(slots=True)
class Run:
    """One check run on a head. `at` counts the events of the world."""

    id: int
    sha: Sha
    name: str
    app: int
    status: str
    conclusion: str | None
    external_id: str = ""
    output: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Town:
    """The repository `acme/demo` at the forge."""

    refs: RemoteRefs
    required: bool
    pulls: dict[int, Pull] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    green: set[Sha] = field(default_factory=set)
    red_at: dict[Sha, int] = field(default_factory=dict)
    told_old: bool = False
    now: Callable[[], int] = lambda: 0

    def pull_of(self, head_ref: str) -> Pull | None:
        """The newest pull request of a branch, an open one first."""
        found = [p for p in self.pulls.values() if p.head_ref == head_ref]
        return max(found, key=lambda p: (p.open, p.number), default=None)

    def follow(self) -> None:
        """Open pull requests show where their branch is now; one whose commits are on its base counts as merged."""
        there = self.refs.repository
        for pull in self.pulls.values():
            head = there.refs.get(f"refs/heads/{pull.head_ref}")
            if pull.open and head is not None:
                pull.head_sha = head
                if there.store.is_ancestor(head, there.refs[MAIN]) and pull.base == "main":
                    pull.open, pull.merged = False, True

    def check(self, sha: Sha, conclusion: str | None) -> Run:
        """The CI App reports on a head; None: it has begun."""
        status = "in_progress" if conclusion is None else "completed"
        run = Run(len(self.runs) + 1, sha, REQUIRED, CI_APP, status, conclusion)
        self.runs.append(run)
        if self.is_green(sha):
            self.green.add(sha)
            self.red_at.pop(sha, None)
        else:
            self.red_at.setdefault(sha, self.now())
        return run

    def is_green(self, sha: Sha) -> bool:
        """Whether the newest run of the CI App on this head is a success."""
        mine = [r for r in self.runs if r.sha == sha and r.name == REQUIRED and r.app == CI_APP]
        return bool(mine) and mine[-1].conclusion == "success"


@dataclass(slots=True)
class Requester:
    """What PyGithub's requester is to the product: one request, one answer."""

    town: Town
    baton: Baton
    earlier: dict[str, tuple[dict[str, str], Any]]
    graphql_url: str = f"{API}/graphql"

    @property
    def requester(self) -> "Requester":
        """Itself: the product asks a client for its requester."""
        return self

    def requestJsonAndCheck(  # noqa: N802 - the library's name
        self,
        verb: str,
        url: str,
        *,
        parameters: Mapping[str, Any],
        input: Mapping[str, Any] | None,  # noqa: A002 - the library's name
    ) -> tuple[dict[str, str], Any]:
        """The answer, or the library's exception."""
        path = url.removeprefix(API).removeprefix("/repos/acme/demo")
        fault = self.baton.seam(f"{verb} {path.split('?')[0]}")
        if fault is Fault.LIMITED:
            raise GithubException(429, {"message": "You have exceeded a secondary rate limit"}, {"retry-after": "60"})
        if fault in (Fault.LOST, Fault.LATE):
            raise GithubException(503, {"message": "Unavailable"}, {})
        self.town.follow()
        key = f"{path} {sorted(parameters.items())}"
        if fault is Fault.STALE and verb == "GET" and key in self.earlier:
            self.town.told_old = True
            return self.earlier[key]
        answer = self._answer(verb, path, parameters, dict(input or {}))
        if fault is Fault.ANSWER_LOST:
            raise GithubException(502, {"message": "Bad gateway"}, {})
        if verb == "GET":
            self.earlier[key] = answer
        return answer

    def _answer(self, verb: str, path: str, asked: Mapping[str, Any], body: dict[str, Any]) -> tuple[dict[str, str], Any]:
        path, _, query = path.partition("?")
        asked = dict(asked) | dict(pair.split("=") for pair in query.split("&") if pair)
        for pattern, answer in _ROUTES:
            if found := re.fullmatch(pattern, f"{verb} {path}"):
                return answer(self.town, found.groups(), asked, body)
        raise AssertionError(f"a request that is not simulated: {verb} {path}")


Reply = tuple[dict[str, str], Any]
Route = Callable[[Town, tuple[str, ...], Mapping[str, Any], dict[str, Any]], Reply]


def _token(_town: Town, _: tuple[str, ...], _asked: Mapping[str, Any], body: dict[str, Any]) -> Reply:
    return {}, {"token": "t", "permissions": dict(body["permissions"]), "expires_at": "2100-01-01T00:00:00Z"}


def _repository(_town: Town, _: tuple[str, ...], _asked: Mapping[str, Any], _body: dict[str, Any]) -> Reply:
    return {}, {"id": REPOSITORY, "full_name": "acme/demo", "default_branch": "main", "clone_url": CLONE}


def _rules(town: Town, _: tuple[str, ...], _asked: Mapping[str, Any], _body: dict[str, Any]) -> Reply:
    checks = [{"context": REQUIRED, "integration_id": CI_APP}]
    wanted = {"required_status_checks": checks, "strict_required_status_checks_policy": True}
    rule = {"type": "required_status_checks", "ruleset_id": 1, "parameters": wanted}
    return {}, [rule] if town.required else []


def _protection(_town: Town, _: tuple[str, ...], _asked: Mapping[str, Any], _body: dict[str, Any]) -> Reply:
    raise GithubException(404, {"message": "Branch not protected"}, {})


def _check_runs(town: Town, found: tuple[str, ...], asked: Mapping[str, Any], _body: dict[str, Any]) -> Reply:
    runs = [r for r in town.runs if r.sha == found[0] and asked.get("check_name") in (None, r.name)]
    runs = [r for r in runs if int(asked.get("app_id", r.app)) == r.app]
    runs.sort(key=lambda r: (r.app == CI_APP, r.id))
    page = int(asked.get("page", 1))
    shown = runs[(page - 1) * PAGE : page * PAGE]
    there_is_more = len(runs) > page * PAGE
    rest = "&".join(f"{k}={v}" for k, v in {**asked, "page": page + 1}.items())
    link = f'<{API}/repos/acme/demo/commits/{found[0]}/check-runs?{rest}>; rel="next"'
    return {"link": link} if there_is_more else {}, {"total_count": len(runs), "check_runs": [_run(r) for r in shown]}


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.id, "name": run.name, "head_sha": run.sha, "status": run.status, "conclusion": run.conclusion,
        "app": {"id": run.app}, "external_id": run.external_id, "output": run.output,
    }  # fmt: skip


def _statuses(_town: Town, _: tuple[str, ...], _asked: Mapping[str, Any], _body: dict[str, Any]) -> Reply:
    return {}, {"total_count": 0, "statuses": []}


def _pull(pull: Pull) -> dict[str, Any]:
    here = {"id": REPOSITORY, "full_name": "acme/demo"}
    return {
        "number": pull.number, "state": "open" if pull.open else "closed", "merged": pull.merged, "merged_by": None,
        "base": {"ref": pull.base, "repo": here}, "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": here},
        "merge_commit_sha": None,
    }  # fmt: skip


def _one_pull(town: Town, found: tuple[str, ...], _asked: Mapping[str, Any], _body: dict[str, Any]) -> Reply:
    return {}, _pull(town.pulls[int(found[0])])


def _pulls(town: Town, _: tuple[str, ...], asked: Mapping[str, Any], _body: dict[str, Any]) -> Reply:
    head = str(asked["head"]).partition(":")[2]
    return {}, [_pull(p) for p in town.pulls.values() if p.head_ref == head and p.base == asked["base"]]


def _open(town: Town, _: tuple[str, ...], _asked: Mapping[str, Any], body: dict[str, Any]) -> Reply:
    there = [p for p in town.pulls.values() if p.open and (p.head_ref, p.base) == (body["head"], body["base"])]
    if there:
        raise GithubException(422, {"message": "Validation Failed", "errors": ["already exists"]}, {})
    if f"refs/heads/{body['head']}" not in town.refs.repository.refs:
        raise GithubException(422, {"message": "Validation Failed", "errors": ["no such head"]}, {})
    pull = town.pulls[len(town.pulls) + 1] = Pull(len(town.pulls) + 1, body["head"], body["base"])
    town.follow()
    return {}, _pull(pull)


def _report(town: Town, _: tuple[str, ...], _asked: Mapping[str, Any], body: dict[str, Any]) -> Reply:
    run = Run(len(town.runs) + 1, body["head_sha"], body["name"], APP, "", None)
    town.runs.append(run)
    _said(run, body)
    return {}, _run(run)


def _again(town: Town, found: tuple[str, ...], _asked: Mapping[str, Any], body: dict[str, Any]) -> Reply:
    _said(town.runs[int(found[0]) - 1], body)
    return {}, {}


def _said(run: Run, body: dict[str, Any]) -> None:
    run.status, run.conclusion = body["status"], body.get("conclusion")
    run.external_id, run.output = body["external_id"], body["output"]


_ROUTES: Final[tuple[tuple[str, Route], ...]] = (
    (r"POST /app/installations/5/access_tokens", _token),
    (r"GET /installation", lambda *_: ({}, {"id": INSTALLATION, "permissions": GRANTED})),
    (r"GET ", _repository),
    (r"GET /rules/branches/main", _rules),
    (r"GET /rulesets/1", lambda *_: ({}, {"current_user_can_bypass": "never"})),
    (r"GET /branches/main/protection", _protection),
    (r"GET /commits/([0-9a-f]+)/check-runs", _check_runs),
    (r"GET /commits/[0-9a-f]+/status", _statuses),
    (r"GET /pulls/(\d+)", _one_pull),
    (r"GET /pulls", _pulls),
    (r"POST /pulls", _open),
    (r"POST /check-runs", _report),
    (r"PATCH /check-runs/(\d+)", _again),
)


class _Readers:
    """A pool that reads in the caller, when it is asked to: one order of reading, always the same."""

    def __init__(self, *_: object, **__: object) -> None:
        self.closed = False

    def submit(self, read: Callable[[], Any]) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(read())
        except Exception as problem:  # noqa: BLE001 - a future carries whatever was raised
            done.set_exception(problem)
        return done

    def shutdown(self, **_: object) -> None:
        self.closed = True


@contextmanager
def in_process(town: Callable[[], Town], baton: Baton) -> Iterator[None]:
    """Put this forge where the HTTP library and the pool of threads were, as long as the block runs."""
    earlier: dict[str, tuple[dict[str, str], Any]] = {}

    def client(**_: object) -> Requester:
        return Requester(town(), baton, earlier)

    with mock.patch("workers.rest.Github", client), mock.patch("workers.forge.ThreadPoolExecutor", _Readers):
        yield
