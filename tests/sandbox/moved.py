"""What follows from refs that have moved, by whatever road: events, check suites, pull requests brought up to date.

The refs on disk are compared with those last seen, so a push, a call of the refs API and a move by hand with git
all have the same consequences.
"""

from tests.sandbox.deliveries import Courier
from tests.sandbox.events import Announcer, wants_suites
from tests.sandbox.gitdir import ZERO, GitDir
from tests.sandbox.rules import Update
from tests.sandbox.world import CheckSuite, Owner, Pull, Repository

QUIET = ("refs/pull/",)


def settle(courier: Courier, repository: Repository, actor: Owner) -> list[Update]:
    """Draws all consequences of the refs that moved since the last look, on behalf of `actor`."""
    world = courier.world
    with world.lock:
        now = {r: s for r, s in GitDir(repository.path).refs().items() if not r.startswith(QUIET)}
        before, repository.known_refs = repository.known_refs, now
        names = sorted(set(before) | set(now))
        updates = [Update(n, before.get(n, ZERO), now.get(n, ZERO)) for n in names if before.get(n) != now.get(n)]
        announcer = Announcer(courier, repository, actor)
        for update in updates:
            commits = update.new == ZERO or announcer.git.commit_sha(update.new) is not None
            if commits and update.ref.startswith(("refs/heads/", "refs/tags/")):
                announcer.push(update)
            if update.ref.startswith("refs/heads/"):
                _branch_moved(courier, announcer, update)
        return updates


def _branch_moved(courier: Courier, announcer: Announcer, update: Update) -> None:
    branch = update.ref.removeprefix("refs/heads/")
    if update.new != ZERO:
        request_suites(announcer, update.new, branch, update.old)
    for repository in list(courier.world.repositories.values()):
        for pull in list(repository.pulls.values()):
            if pull.state != "open":
                continue
            if pull.head_repository is announcer.repository and pull.head_ref == branch:
                _head_moved(Announcer(courier, repository, announcer.sender), pull, update)
            if repository is announcer.repository and pull.base_ref == branch:
                _base_moved(announcer, pull, update)


def request_suites(announcer: Announcer, sha: str, branch: str, before: str) -> None:
    """Opens a check suite at a commit for each App that writes checks and has none there."""
    world, repository = announcer.world, announcer.repository
    for app in world.apps.values():
        known = any(s.head_sha == sha and s.app is app for s in repository.suites)
        if known or not wants_suites(app) or world.installation_of(app, repository) is None:
            continue
        suite = CheckSuite(world.next_id(), app, sha, branch, before, world.clock())
        repository.suites.append(suite)
        announcer.check_suite("requested", suite)


def _head_moved(announcer: Announcer, pull: Pull, update: Update) -> None:
    if update.new == ZERO:
        close(announcer, pull)
        return
    if update.new == pull.head_sha:
        return
    before, pull.head_sha = pull.head_sha, update.new
    pull.updated_ms = announcer.world.clock()
    pull.base_sha = announcer.git.tip(f"refs/heads/{pull.base_ref}") or pull.base_sha
    forget_mergeability(announcer.repository, pull)
    keep_head(announcer.repository, pull)
    announcer.pull_request("synchronize", pull, before=before, after=update.new)


def _base_moved(announcer: Announcer, pull: Pull, update: Update) -> None:
    if update.new == ZERO:
        close(announcer, pull)
        return
    forget_mergeability(announcer.repository, pull)
    if announcer.git.is_ancestor(pull.head_sha, update.new):
        landed = _merging_commit(announcer.git, pull, update)
        record_merge(pull, landed, announcer.sender, announcer.world.clock())
        announcer.pull_request("closed", pull)


def _merging_commit(git: GitDir, pull: Pull, update: Update) -> str:
    """The first commit along the branch's own line that contains the head."""
    if update.old == ZERO:
        return update.new
    line = git.run("rev-list", "--first-parent", "--reverse", f"{update.old}..{update.new}").split()
    return next((sha for sha in line if git.is_ancestor(pull.head_sha, sha)), update.new)


def record_merge(pull: Pull, landed: str, by: Owner, now_ms: int) -> None:
    """A pull request is merged: closed, with the commit that did it."""
    pull.merged, pull.state, pull.merge_commit_sha = True, "closed", landed
    pull.merged_by, pull.merged_ms, pull.closed_ms, pull.updated_ms = by, now_ms, now_ms, now_ms


def close(announcer: Announcer, pull: Pull) -> None:
    now_ms = announcer.world.clock()
    pull.state, pull.closed_ms, pull.updated_ms = "closed", now_ms, now_ms
    announcer.pull_request("closed", pull)


def forget_mergeability(repository: Repository, pull: Pull) -> None:
    """Mergeability is computed anew, and unknown for the first reads if the repository is told to be slow."""
    pull.reads_without_mergeable = repository.mergeable_after_reads
    pull.merge_commit_sha = None if not pull.merged else pull.merge_commit_sha


def keep_head(repository: Repository, pull: Pull) -> None:
    """`refs/pull/N/head` follows the head, also when that lives in a fork."""
    git, ref = GitDir(repository.path), f"refs/pull/{pull.number}/head"
    if pull.head_repository is repository:
        git.move(ref, pull.head_sha)
    else:
        git.run("fetch", "--quiet", "--no-tags", str(pull.head_repository.path), f"+{pull.head_sha}:{ref}")


def actor_or_ghost(courier: Courier, actor: Owner | None) -> Owner:
    """Whoever moved a ref by hand, outside of every door."""
    return actor or courier.world.owner("ghost", "User")
