"""Operations on refs, commits, trees and comparisons. A ref moved here obeys the same rules as a push."""

import re
from typing import Any

from tests.sandbox import moved, shape, shape_git, shape_pulls
from tests.sandbox.endpoints import Call, Collection, operation
from tests.sandbox.gitdir import ZERO, GitFailed, Signature
from tests.sandbox.reply import Answer, Refused, not_found, unprocessable
from tests.sandbox.rules import Update, judge_update
from tests.sandbox.world import Json

R = "/repos/{owner}/{repo}"
SHA = re.compile(r"[0-9a-f]{40}")
LONGEST_COMPARE = 250


def _ref(call: Call, name: str, sha: str) -> Json:
    kind = call.git.kind(sha) or "commit"
    return shape_git.ref(call.base, call.repository, name, sha, kind)


def _has_commits(call: Call) -> None:
    if not call.repository.known_refs and not call.git.refs():
        raise Refused(409, "Git Repository is empty.")


@operation("GET", f"{R}/git/ref/{{ref}}")
def get_ref(call: Call) -> Json:
    _has_commits(call)
    name = f"refs/{call.args['ref']}"
    sha = call.git.refs().get(name)
    if sha is None:
        raise not_found()
    return _ref(call, name, sha)


@operation("GET", f"{R}/git/matching-refs/{{ref}}")
def matching_refs(call: Call) -> list[Json]:
    _has_commits(call)
    start = f"refs/{call.args['ref']}"
    return [_ref(call, name, sha) for name, sha in call.git.refs().items() if name.startswith(start)]


def _apply(call: Call, update: Update) -> None:
    """Moves a ref for the caller if the rules admit it, and draws the consequences."""
    repository, git = call.repository, call.git
    if update.ref.startswith("refs/pull/"):
        raise unprocessable("Reference cannot be updated")
    violations = judge_update(repository, git, call.caller, update)
    if violations:
        said = "\n\n".join(v.sentence for v in violations)
        if any(v.layer == "ruleset" for v in violations):
            raise unprocessable(f"Repository rule violations found\n\n{said}\n\n")
        raise unprocessable(said)
    try:
        git.move(update.ref, update.new, update.old)
    except GitFailed:
        raise unprocessable("Reference cannot be updated") from None
    moved.settle(call.courier, repository, call.actor)


def _object(call: Call, sha: object) -> str:
    if not isinstance(sha, str) or not SHA.fullmatch(sha):
        raise unprocessable("The sha parameter must be exactly 40 characters and contain only [0-9a-f].")
    if call.git.kind(sha) is None:
        raise unprocessable("Object does not exist")
    return sha


@operation("POST", f"{R}/git/refs")
def create_ref(call: Call) -> Answer:
    name, sha = call.wanted("ref", "sha")
    if not re.fullmatch(r"refs/[^/]+/.+", name):
        raise unprocessable("Reference name must start with 'refs/' and have at least two slashes.")
    _object(call, sha)
    if call.git.tip(name) is not None:
        raise unprocessable("Reference already exists")
    _apply(call, Update(name, ZERO, sha))
    shown = _ref(call, name, sha)
    return Answer(201, shown, {"Location": shown["url"]})


@operation("PATCH", f"{R}/git/refs/{{ref}}")
def update_ref(call: Call) -> Json:
    (sha,) = call.wanted("sha")
    name = f"refs/{call.args['ref']}"
    old = call.git.refs().get(name)
    _object(call, sha)
    if old is None:
        raise unprocessable("Reference does not exist")
    if not call.body.get("force", False) and not call.git.is_ancestor(old, sha):
        raise unprocessable("Update is not a fast forward")
    if sha != old:
        _apply(call, Update(name, old, sha))
    return _ref(call, name, sha)


@operation("DELETE", f"{R}/git/refs/{{ref}}")
def delete_ref(call: Call) -> Answer:
    name = f"refs/{call.args['ref']}"
    old = call.git.refs().get(name)
    if old is None:
        raise unprocessable("Reference does not exist")
    _apply(call, Update(name, old, ZERO))
    return Answer(204)


@operation("GET", f"{R}/git/commits/{{commit_sha}}")
def get_git_commit(call: Call) -> Json:
    sha = call.git.commit_sha(call.args["commit_sha"])
    if sha is None or sha != call.args["commit_sha"]:
        raise not_found()
    return shape_git.git_commit(call.base, call.repository, call.git.commit(sha))


@operation("POST", f"{R}/git/commits")
def create_git_commit(call: Call) -> Answer:
    message, tree = call.wanted("message", "tree")
    if call.git.kind(tree) != "tree":
        raise unprocessable("Tree SHA does not exist")
    parents = [_object(call, parent) for parent in call.body.get("parents", [])]
    author = _who(call, call.body.get("author"))
    committer = _who(call, call.body.get("committer") or call.body.get("author"))
    sha = call.git.commit_tree(tree, parents, message, author, committer)
    return Answer(201, shape_git.git_commit(call.base, call.repository, call.git.commit(sha)))


def _who(call: Call, given: Json | None) -> Signature:
    name = call.actor.login
    known = {"name": name, "email": f"{call.actor.id}+{name}@users.noreply.github.com", **(given or {})}
    at_ms = shape.milliseconds(known["date"]) if "date" in known else call.world.clock()
    return Signature(known["name"], known["email"], at_ms // 1000)


@operation("POST", f"{R}/git/trees")
def create_tree(call: Call) -> Answer:
    (entries,) = call.wanted("tree")
    lines: list[str] = []
    git = call.git
    if call.body.get("base_tree"):
        lines = git.run("ls-tree", "-r", f"{call.body['base_tree']}^{{tree}}").splitlines()
    kept = {line.partition("\t")[2]: line for line in lines}
    for entry in entries:
        sha = entry.get("sha")
        if "content" in entry:
            sha = git.run("hash-object", "-w", "--stdin", feed=entry["content"].encode()).strip()
        kept.pop(entry["path"], None)
        if sha is not None:
            kept[entry["path"]] = f"{entry['mode']} {entry.get('type', 'blob')} {sha}\t{entry['path']}"
    tree = _write_tree(call, list(kept.values()))
    listed = git.run("ls-tree", tree).splitlines()
    url = f"{call.base}/repos/{call.repository.full_name}/git/trees/{tree}"
    return Answer(201, {"sha": tree, "url": url, "tree": [_entry(line) for line in listed], "truncated": False})


def _write_tree(call: Call, lines: list[str]) -> str:
    index = call.repository.path / f"index-{call.world.next_id()}"
    extra = {"GIT_INDEX_FILE": str(index)}
    feed = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    try:
        call.git.run("update-index", "--index-info", feed=feed, extra=extra)
        return call.git.run("write-tree", extra=extra).strip()
    except GitFailed as error:
        raise unprocessable(f"GitRPC::BadObjectState: {error}") from None
    finally:
        index.unlink(missing_ok=True)


def _entry(line: str) -> Json:
    facts, _, path = line.partition("\t")
    mode, kind, sha = facts.split(" ")
    return {"path": path, "mode": mode, "type": kind, "sha": sha}


def found_commit(call: Call, revision: str) -> str:
    """The commit behind a sha, a branch or a tag; an unknown one raises `Refused(422)`, as GitHub does."""
    git = call.git
    for candidate in (f"refs/heads/{revision}", f"refs/tags/{revision}", f"refs/{revision}", revision):
        sha = git.commit_sha(candidate)
        if sha is not None:
            return sha
    raise unprocessable(f"No commit found for SHA: {revision}")


@operation("GET", f"{R}/commits/{{ref}}")
def get_commit(call: Call) -> Json:
    _has_commits(call)
    facts = call.git.commit(found_commit(call, call.args["ref"]))
    return shape_git.commit_with_files(call.base, call.repository, call.git, facts)


@operation("GET", f"{R}/commits/{{commit_sha}}/pulls")
def pulls_of_commit(call: Call) -> Collection:
    sha = found_commit(call, call.args["commit_sha"])
    git = call.git

    def belongs(head: str, base: str, merged: str | None) -> bool:
        return sha in (head, merged) or (git.is_ancestor(sha, head) and not git.is_ancestor(sha, base))

    pulls = [p for p in call.repository.pulls.values() if belongs(p.head_sha, p.base_sha, p.merge_commit_sha)]
    return Collection(pulls, lambda pull: shape_pulls.simple(call.base, call.repository, pull))


@operation("GET", f"{R}/compare/{{basehead}}")
def compare(call: Call) -> Json:
    older, dots, newer = call.args["basehead"].partition("...")
    if not dots:
        raise not_found()
    try:
        base_sha, head_sha = (found_commit(call, end.rpartition(":")[2]) for end in (older, newer))
    except Refused:
        raise not_found() from None
    if call.git.merge_base(base_sha, head_sha) is None:
        raise Refused(404, f"No common ancestor between {older} and {newer}.")
    size = min(int(call.query.get("per_page", LONGEST_COMPARE)), LONGEST_COMPARE)
    skip = (max(int(call.query.get("page", "1")), 1) - 1) * size
    page = call.git.log("--reverse", f"{base_sha}..{head_sha}")[skip : skip + size]
    return shape_git.comparison(call.base, call.repository, call.git, base_sha, head_sha, page=page)


@operation("POST", f"{R}/merges")
def merge_branches(call: Call) -> Any:
    """Merges one branch into another by a merge commit, as the merges API does."""
    into, head = call.wanted("base", "head")
    tip = call.git.tip(f"refs/heads/{into}")
    if tip is None:
        raise Refused(404, "Base does not exist")
    try:
        sha = found_commit(call, head)
    except Refused:
        raise Refused(404, "Head does not exist") from None
    if call.git.is_ancestor(sha, tip):
        return Answer(204)
    tree = call.git.merge_tree(tip, sha)
    if tree is None:
        raise Refused(409, "Merge conflict")
    message = call.body.get("commit_message") or f"Merge {head} into {into}"
    made = call.git.commit_tree(tree, [tip, sha], message, _who(call, None))
    _apply(call, Update(f"refs/heads/{into}", tip, made))
    return Answer(201, shape_git.commit(call.base, call.repository, call.git.commit(made)))
