"""Operations on pull requests: opening, reading, retargeting, closing, merging, bringing up to date."""

from typing import Any

from tests.sandbox import moved, shape_git, shape_pulls
from tests.sandbox.deliveries import Courier
from tests.sandbox.endpoints import Call, Collection, operation
from tests.sandbox.events import Announcer
from tests.sandbox.gitdir import GitDir
from tests.sandbox.merging import Merge, measure, merge, signature_of
from tests.sandbox.reply import Answer, Refused, forbidden, invalid, not_found, unprocessable
from tests.sandbox.world import Json, Owner, Pull, Repository, World

R = "/repos/{owner}/{repo}"


def _announcer(call: Call) -> Announcer:
    return Announcer(call.courier, call.repository, call.actor)


def the_pull(call: Call, argument: str = "pull_number") -> Pull:
    found = call.repository.pulls.get(call.number(argument))
    if found is None:
        raise not_found()
    return found


def _full(call: Call, pull: Pull) -> Json:
    measured = measure(call.world, call.repository, pull)
    return shape_pulls.full(call.base, call.repository, pull, measured)


@operation("GET", f"{R}/pulls")
def list_pulls(call: Call) -> Collection:
    query = call.query
    pulls = list(call.repository.pulls.values())
    if query.get("state", "open") != "all":
        pulls = [p for p in pulls if p.state == query.get("state", "open")]
    if "base" in query:
        pulls = [p for p in pulls if p.base_ref == query["base"]]
    if "head" in query and ":" in query["head"]:
        owner, _, ref = query["head"].partition(":")
        pulls = [p for p in pulls if p.head_ref == ref and p.head_repository.owner.login.lower() == owner.lower()]
    down = query.get("direction", "desc") == "desc"
    pulls.sort(key=lambda p: p.number, reverse=down)
    return Collection(pulls, lambda pull: shape_pulls.simple(call.base, call.repository, pull))


def open_pull(courier: Courier, repository: Repository, author: Owner, body: Json) -> Pull:
    """Opens a pull request; what GitHub refuses with 422 raises `Refused(422)` in its words."""
    world = courier.world
    head_repository, head_ref = _head(world, repository, body["head"])
    base_ref = body["base"]
    head_sha = GitDir(head_repository.path).tip(f"refs/heads/{head_ref}")
    base_sha = GitDir(repository.path).tip(f"refs/heads/{base_ref}")
    if head_sha is None:
        raise invalid("PullRequest", "head")
    if base_sha is None:
        raise invalid("PullRequest", "base")
    for other in repository.pulls.values():
        same = (other.head_repository, other.head_ref, other.base_ref) == (head_repository, head_ref, base_ref)
        if same and other.state == "open":
            text = f"A pull request already exists for {head_repository.owner.login}:{head_ref}."
            raise invalid("PullRequest", "head", message=text)
    number = max(repository.pulls, default=0) + 1
    pull = Pull(
        id=world.next_id(),
        number=number,
        title=body["title"],
        body=body.get("body"),
        user=author,
        head_repository=head_repository,
        head_ref=head_ref,
        head_sha=head_sha,
        base_ref=base_ref,
        base_sha=base_sha,
        created_ms=world.clock(),
        updated_ms=world.clock(),
        draft=bool(body.get("draft", False)),
    )
    moved.keep_head(repository, pull)
    if GitDir(repository.path).is_ancestor(head_sha, base_sha):
        GitDir(repository.path).run("update-ref", "-d", f"refs/pull/{number}/head")
        raise invalid("PullRequest", "base", message=f"No commits between {base_ref} and {head_ref}")
    moved.forget_mergeability(repository, pull)
    repository.pulls[number] = pull
    Announcer(courier, repository, author).pull_request("opened", pull)
    return pull


def _head(world: World, repository: Repository, head: str) -> tuple[Repository, str]:
    owner, colon, ref = head.partition(":")
    if not colon:
        return repository, head
    if owner.lower() == repository.owner.login.lower():
        return repository, ref
    forks = [r for r in world.repositories.values() if r.parent is repository]
    fork = next((r for r in forks if r.owner.login.lower() == owner.lower()), None)
    if fork is None:
        raise invalid("PullRequest", "head")
    return fork, ref


@operation("POST", f"{R}/pulls")
def create_pull(call: Call) -> Answer:
    call.wanted("head", "base")
    if "title" not in call.body:
        raise Refused(422, "Validation Failed", [{"resource": "Issue", "code": "missing_field", "field": "title"}])
    pull = open_pull(call.courier, call.repository, call.actor, call.body)
    shown = _full(call, pull)
    return Answer(201, shown, {"Location": shown["url"]})


@operation("GET", f"{R}/pulls/{{pull_number}}")
def get_pull(call: Call) -> Json:
    return _full(call, the_pull(call))


@operation("PATCH", f"{R}/pulls/{{pull_number}}")
def update_pull(call: Call) -> Json:
    pull, body, announcer = the_pull(call), call.body, _announcer(call)
    changes: Json = {}
    for name in ("title", "body"):
        if name in body and body[name] != getattr(pull, name):
            changes[name] = {"from": getattr(pull, name) or ""}
            setattr(pull, name, body[name])
    if "base" in body and body["base"] != pull.base_ref:
        changes["base"] = _retarget(call, pull, body["base"])
    pull.updated_ms = call.world.clock()
    if changes:
        announcer.pull_request("edited", pull, changes=changes)
    if body.get("state", pull.state) != pull.state:
        _turn(call, pull, body["state"])
    return _full(call, pull)


def _retarget(call: Call, pull: Pull, base: str) -> Json:
    tip = call.git.tip(f"refs/heads/{base}")
    if tip is None:
        raise invalid("PullRequest", "base")
    was = {"ref": {"from": pull.base_ref}, "sha": {"from": pull.base_sha}}
    pull.base_ref, pull.base_sha = base, tip
    moved.forget_mergeability(call.repository, pull)
    return was


def _turn(call: Call, pull: Pull, state: str) -> None:
    """Closes or reopens; a merged pull request, or one whose branch is gone, stays closed."""
    if state == "closed":
        moved.close(_announcer(call), pull)
        return
    tip = GitDir(pull.head_repository.path).tip(f"refs/heads/{pull.head_ref}")
    if pull.merged or tip is None:
        raise invalid("PullRequest", "state", message=f"state cannot be changed. The {pull.head_ref} branch is gone.")
    pull.state, pull.closed_ms, pull.head_sha = "open", None, tip
    moved.keep_head(call.repository, pull)
    moved.forget_mergeability(call.repository, pull)
    _announcer(call).pull_request("reopened", pull)


@operation("GET", f"{R}/pulls/{{pull_number}}/merge")
def is_merged(call: Call) -> Answer:
    if not the_pull(call).merged:
        raise not_found()
    return Answer(204)


@operation("PUT", f"{R}/pulls/{{pull_number}}/merge")
def merge_pull(call: Call) -> Json:
    wish = Merge(call.courier, call.repository, the_pull(call), call.caller, call.actor, call.body)
    changed = GitDir(call.repository.path).changes(wish.pull.base_sha, wish.pull.head_sha)
    workflows = any(change.path.startswith(".github/workflows/") for change in changed)
    if workflows and not call.caller.may("workflows", "write"):
        raise forbidden()
    return {"sha": merge(wish), "merged": True, "message": "Pull Request successfully merged"}


@operation("GET", f"{R}/pulls/{{pull_number}}/files")
def list_files(call: Call) -> Collection:
    pull, git = the_pull(call), call.git
    meeting = git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    return Collection(shape_git.files(call.base, call.repository, git, meeting, pull.head_sha), lambda entry: entry)


@operation("GET", f"{R}/pulls/{{pull_number}}/commits")
def list_commits(call: Call) -> Collection:
    pull = the_pull(call)
    commits = call.git.log("--reverse", f"{pull.base_sha}..{pull.head_sha}")[:250]
    return Collection(commits, lambda facts: shape_git.commit(call.base, call.repository, facts))


@operation("PUT", f"{R}/pulls/{{pull_number}}/update-branch")
def update_branch(call: Call) -> Any:
    """Merges the base's tip into the head branch."""
    pull, git = the_pull(call), call.git
    if call.body.get("expected_head_sha") not in (None, pull.head_sha):
        raise unprocessable("expected head sha didn’t match current head ref.")
    tip = git.tip(f"refs/heads/{pull.base_ref}")
    if tip is None or git.is_ancestor(tip, pull.head_sha):
        raise unprocessable("There are no new commits on the base branch.")
    tree = git.merge_tree(pull.head_sha, tip)
    if tree is None:
        raise unprocessable("merge conflict between base and head")
    who = signature_of(call.actor, call.world.clock())
    message = f"Merge branch '{pull.base_ref}' into {pull.head_ref}"
    made = git.commit_tree(tree, [pull.head_sha, tip], message, who)
    target = GitDir(pull.head_repository.path)
    if pull.head_repository is not call.repository:
        target.run("fetch", "--quiet", str(call.repository.path), made)
    target.move(f"refs/heads/{pull.head_ref}", made, pull.head_sha)
    moved.settle(call.courier, pull.head_repository, call.actor)
    url = f"{call.base}/{call.repository.full_name}/pull/{pull.number}"
    return Answer(202, {"message": "Updating pull request branch.", "url": url})
