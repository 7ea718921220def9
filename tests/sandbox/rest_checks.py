"""Operations on check suites, check runs and commit statuses."""

from typing import Any

from tests.sandbox import shape, shape_checks, shape_repository
from tests.sandbox.endpoints import Call, Collection, operation
from tests.sandbox.events import Announcer
from tests.sandbox.reply import Answer, Refused, invalid, not_found, unprocessable
from tests.sandbox.rest_git import found_commit
from tests.sandbox.world import CheckRun, CheckSuite, Json, Status

R = "/repos/{owner}/{repo}"
LONGEST_TEXT = 65_535
MOST_ANNOTATIONS = 50


def _announcer(call: Call) -> Announcer:
    return Announcer(call.courier, call.repository, call.actor)


def _suite(call: Call, sha: str) -> CheckSuite:
    """The App's own suite at a commit, opened on demand."""
    known = next((s for s in call.repository.suites if s.app is call.app and s.head_sha == sha), None)
    if known is None:
        tips = {tip: ref for ref, tip in call.git.refs().items() if ref.startswith("refs/heads/")}
        branch = tips[sha].removeprefix("refs/heads/") if sha in tips else None
        known = CheckSuite(call.world.next_id(), call.app, sha, branch, None, call.world.clock())
        call.repository.suites.append(known)
    return known


def _times(call: Call, run: CheckRun) -> None:
    for name in ("started_at", "completed_at"):
        if name in call.body:
            try:
                setattr(run, name.replace("_at", "_ms"), shape.milliseconds(call.body[name]))
            except (TypeError, ValueError):
                text = f"For 'properties/{name}', {call.body[name]} is not a date-time."
                raise unprocessable(f"Invalid request.\n\n{text}") from None


def _fill(call: Call, run: CheckRun) -> None:
    """Takes over what the body says about a run; a conclusion completes it, a completion needs a conclusion."""
    body = call.body
    run.name = body.get("name", run.name)
    run.details_url = body.get("details_url", run.details_url)
    run.external_id = body.get("external_id", run.external_id)
    _times(call, run)
    if "output" in body:
        run.output = _output(run, body["output"])
    if body.get("conclusion") is not None:
        run.status, run.conclusion = "completed", body["conclusion"]
        run.completed_ms = run.completed_ms or call.world.clock()
    elif "status" in body:
        if body["status"] == "completed":
            raise unprocessable("Invalid request.\n\n\"conclusion\" wasn't supplied.")
        run.status, run.conclusion, run.completed_ms = body["status"], None, None
    if run.status != "queued" and run.started_ms is None:
        run.started_ms = call.world.clock()


def _output(run: CheckRun, given: Json) -> Json:
    for name in ("summary", "text"):
        if len(given.get(name) or "") > LONGEST_TEXT:
            raise invalid("CheckRun", name, message=f"{name} exceeds a maximum length of {LONGEST_TEXT} characters")
    added = given.get("annotations", [])
    if len(added) > MOST_ANNOTATIONS:
        raise unprocessable("Invalid request.\n\nNo more than 50 items are allowed in annotations.")
    return {**run.output, **given, "annotations": [*run.output.get("annotations", []), *added]}


@operation("POST", f"{R}/check-runs")
def create_check_run(call: Call) -> Answer:
    name, sha = call.wanted("name", "head_sha")
    if call.git.commit_sha(sha) != sha:
        raise unprocessable(f"No commit found for SHA: {sha}")
    suite = _suite(call, sha)
    run = CheckRun(call.world.next_id(), suite, name, "queued", None, None, None, None, "", {})
    _fill(call, run)
    call.repository.runs.append(run)
    _announcer(call).check_run("created", run)
    _completed(call, run)
    return Answer(201, shape_checks.check_run(call.base, call.repository, run))


def _completed(call: Call, run: CheckRun) -> None:
    """Announces a completed run, and its suite once all of its runs are."""
    if run.status != "completed":
        return
    _announcer(call).check_run("completed", run)
    runs = shape_checks.latest([r for r in call.repository.runs if r.suite is run.suite])
    if all(r.status == "completed" for r in runs):
        _announcer(call).check_suite("completed", run.suite)


def _run(call: Call) -> CheckRun:
    found = next((r for r in call.repository.runs if r.id == call.number("check_run_id")), None)
    if found is None:
        raise not_found()
    return found


@operation("GET", f"{R}/check-runs/{{check_run_id}}")
def get_check_run(call: Call) -> Json:
    return shape_checks.check_run(call.base, call.repository, _run(call))


@operation("PATCH", f"{R}/check-runs/{{check_run_id}}")
def update_check_run(call: Call) -> Json:
    run = _run(call)
    if run.suite.app is not call.app:
        text = "check run can only be modified by the GitHub App that created it."
        raise Refused(403, f"Invalid app_id `{call.app.id}` - {text}")
    before = run.status
    _fill(call, run)
    if before != "completed":
        _completed(call, run)
    return shape_checks.check_run(call.base, call.repository, run)


@operation("POST", f"{R}/check-runs/{{check_run_id}}/rerequest")
def rerequest_check_run(call: Call) -> Answer:
    _announcer(call).check_run("rerequested", _run(call))
    return Answer(201, {})


@operation("GET", f"{R}/commits/{{ref}}/check-runs")
def list_check_runs(call: Call) -> Collection:
    sha = found_commit(call, call.args["ref"])
    query = call.query
    runs = [r for r in call.repository.runs if r.suite.head_sha == sha]
    only_latest = query.get("filter", "latest") == "latest"
    runs = shape_checks.latest(runs) if only_latest else sorted(runs, key=lambda run: -run.id)
    if "check_name" in query:
        runs = [r for r in runs if r.name == query["check_name"]]
    if "status" in query:
        runs = [r for r in runs if r.status == query["status"]]
    if "app_id" in query:
        runs = [r for r in runs if str(r.suite.app.id) == query["app_id"]]
    return Collection(runs, lambda run: shape_checks.check_run(call.base, call.repository, run), "check_runs")


@operation("GET", f"{R}/commits/{{ref}}/check-suites")
def list_check_suites(call: Call) -> Collection:
    sha = found_commit(call, call.args["ref"])
    suites = [s for s in call.repository.suites if s.head_sha == sha]
    if "app_id" in call.query:
        suites = [s for s in suites if str(s.app.id) == call.query["app_id"]]
    return Collection(
        suites, lambda s: shape_checks.check_suite(call.base, call.repository, call.git, s), "check_suites"
    )


@operation("POST", f"{R}/check-suites")
def create_check_suite(call: Call) -> Answer:
    (sha,) = call.wanted("head_sha")
    if call.git.commit_sha(sha) != sha:
        raise unprocessable(f"No commit found for SHA: {sha}")
    known = any(s.app is call.app and s.head_sha == sha for s in call.repository.suites)
    suite = _suite(call, sha)
    shown = shape_checks.check_suite(call.base, call.repository, call.git, suite)
    return Answer(200 if known else 201, shown)


@operation("GET", f"{R}/check-suites/{{check_suite_id}}")
def get_check_suite(call: Call) -> Json:
    found = next((s for s in call.repository.suites if s.id == call.number("check_suite_id")), None)
    if found is None:
        raise not_found()
    return shape_checks.check_suite(call.base, call.repository, call.git, found)


@operation("POST", f"{R}/statuses/{{sha}}")
def create_status(call: Call) -> Answer:
    (state,) = call.wanted("state")
    sha = call.args["sha"]
    if call.git.commit_sha(sha) != sha:
        raise unprocessable(f"No commit found for SHA: {sha}")
    if state not in ("error", "failure", "pending", "success"):
        raise invalid("Status", "state")
    app = call.caller.acting_app
    status = Status(
        id=call.world.next_id(),
        sha=sha,
        context=call.body.get("context", "default"),
        state=state,
        description=call.body.get("description"),
        target_url=call.body.get("target_url"),
        creator=call.actor,
        app_id=app.id if app else None,
        created_ms=call.world.clock(),
    )
    call.repository.statuses.append(status)
    _announcer(call).status(status)
    return Answer(201, shape_checks.status(call.base, call.repository, status))


@operation("GET", f"{R}/commits/{{ref}}/statuses")
def list_statuses(call: Call) -> Collection:
    sha = found_commit(call, call.args["ref"])
    newest_first = [s for s in reversed(call.repository.statuses) if s.sha == sha]
    return Collection(newest_first, lambda one: shape_checks.status(call.base, call.repository, one))


@operation("GET", f"{R}/commits/{{ref}}/status")
def combined_status(call: Call) -> Collection:
    sha = found_commit(call, call.args["ref"])
    newest = shape_checks.newest_statuses(call.repository, sha)
    url = f"{shape_repository.api_url(call.base, call.repository)}/commits/{sha}"
    extra: dict[str, Any] = {
        "state": shape_checks.combined([one.state for one in newest]),
        "sha": sha,
        "commit_url": url,
        "url": f"{url}/status",
        "repository": shape_repository.minimal(call.base, call.repository),
    }
    return Collection(
        newest, lambda one: shape_checks.simple_status(call.base, call.repository, one), "statuses", extra
    )
