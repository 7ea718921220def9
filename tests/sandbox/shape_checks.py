"""Check suites, check runs and commit statuses, as GitHub writes them."""

from tests.sandbox import shape, shape_git, shape_repository
from tests.sandbox.gitdir import GitDir
from tests.sandbox.shape_repository import api_url
from tests.sandbox.world import CheckRun, CheckSuite, Json, Pull, Repository, Status

FAILED = ("failure", "timed_out", "cancelled", "action_required", "startup_failure", "stale")


def minimal_pull(base: str, known: Repository, pull: Pull) -> Json:
    def end(repository: Repository, ref: str, sha: str) -> Json:
        where = {"id": repository.id, "url": api_url(base, repository), "name": repository.name}
        return {"ref": ref, "sha": sha, "repo": where}

    return {
        "id": pull.id,
        "number": pull.number,
        "url": f"{api_url(base, known)}/pulls/{pull.number}",
        "head": end(pull.head_repository, pull.head_ref, pull.head_sha),
        "base": end(known, pull.base_ref, pull.base_sha),
    }


def pulls_at(base: str, known: Repository, sha: str) -> list[Json]:
    """The open pull requests whose head is this commit."""
    heads = [p for p in known.pulls.values() if p.state == "open" and p.head_sha == sha]
    return [minimal_pull(base, known, pull) for pull in heads]


def check_run(base: str, known: Repository, run: CheckRun) -> Json:
    url = f"{api_url(base, known)}/check-runs/{run.id}"
    html = f"{base}/{known.full_name}/runs/{run.id}"
    return {
        "id": run.id,
        "name": run.name,
        "node_id": shape.node_id("CheckRun", run.id),
        "head_sha": run.suite.head_sha,
        "external_id": run.external_id,
        "url": url,
        "html_url": html,
        "details_url": run.details_url or html,
        "status": run.status,
        "conclusion": run.conclusion,
        "started_at": shape.maybe_instant(run.started_ms),
        "completed_at": shape.maybe_instant(run.completed_ms),
        "output": {
            "title": run.output.get("title"),
            "summary": run.output.get("summary"),
            "text": run.output.get("text"),
            "annotations_count": len(run.output.get("annotations", [])),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": run.suite.id},
        "app": shape.app(base, run.suite.app),
        "pull_requests": pulls_at(base, known, run.suite.head_sha),
    }


def latest(runs: list[CheckRun]) -> list[CheckRun]:
    """The newest run of each name in each suite: what `filter=latest` shows."""
    newest: dict[tuple[int, str], CheckRun] = {}
    for run in runs:
        newest[(run.suite.id, run.name)] = run
    return sorted(newest.values(), key=lambda run: -run.id)


def rolled_up(runs: list[CheckRun]) -> tuple[str, str | None]:
    """The status and conclusion of a suite, from its newest runs."""
    if not runs:
        return "queued", None
    if any(run.status != "completed" for run in runs):
        return "in_progress", None
    conclusions = {run.conclusion for run in runs}
    for bad in FAILED:
        if bad in conclusions:
            return "completed", bad
    for word in ("success", "neutral"):
        if word in conclusions:
            return "completed", word
    return "completed", "skipped"


def check_suite(base: str, known: Repository, git: GitDir, suite: CheckSuite) -> Json:
    runs = latest([run for run in known.runs if run.suite is suite])
    status, conclusion = rolled_up(runs)
    url = f"{api_url(base, known)}/check-suites/{suite.id}"
    return {
        "id": suite.id,
        "node_id": shape.node_id("CheckSuite", suite.id),
        "head_branch": suite.head_branch,
        "head_sha": suite.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": url,
        "before": suite.before,
        "after": suite.head_sha,
        "pull_requests": pulls_at(base, known, suite.head_sha),
        "app": shape.app(base, suite.app),
        "repository": shape_repository.minimal(base, known),
        "created_at": shape.instant(suite.created_ms),
        "updated_at": shape.instant(suite.created_ms),
        "latest_check_runs_count": len(runs),
        "check_runs_url": f"{url}/check-runs",
        "head_commit": shape_git.simple_commit(git.commit(suite.head_sha)),
    }


def simple_status(base: str, known: Repository, status: Status) -> Json:
    return {
        "url": f"{api_url(base, known)}/statuses/{status.sha}",
        "avatar_url": f"{base}/avatars/u/{status.creator.id}?v=4",
        "id": status.id,
        "node_id": shape.node_id("StatusContext", status.id),
        "state": status.state,
        "description": status.description,
        "target_url": status.target_url,
        "context": status.context,
        "created_at": shape.instant(status.created_ms),
        "updated_at": shape.instant(status.created_ms),
    }


def status(base: str, known: Repository, one: Status) -> Json:
    return {**simple_status(base, known, one), "creator": shape.user(base, one.creator)}


def newest_statuses(known: Repository, sha: str) -> list[Status]:
    """The newest status of each context, as the combined status counts them."""
    newest: dict[str, Status] = {}
    for one in known.statuses:
        if one.sha == sha:
            newest[one.context] = one
    return list(newest.values())


def combined(states: list[str]) -> str:
    """The combined state: pending also when there is none, as on the real thing."""
    if any(state in ("failure", "error") for state in states):
        return "failure"
    return "success" if states and all(state == "success" for state in states) else "pending"
