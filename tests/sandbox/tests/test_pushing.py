"""Pushes: who may, and what the rules of a branch refuse, in GitHub's words."""

import os
import threading
from pathlib import Path

import pytest

from tests.sandbox.sandbox import AppHandle, Repo, Sandbox
from tests.sandbox.tests.client import Clone


@pytest.fixture
def hub(github: Sandbox) -> AppHandle:
    return github.app("mac-hub")


@pytest.fixture
def repo(github: Sandbox) -> Repo:
    return github.repository("acme/hub", files={"README.md": "hello\n"})


@pytest.fixture
def clone(repo: Repo, hub: AppHandle, tmp_path: Path) -> Clone:
    return Clone.of(repo, hub, tmp_path / "clone")


def refused(clone: Clone, *refspecs: str) -> str:
    """The words of a refused push; fails if it went through or moved main."""
    before = clone.repo.refs()
    done = clone.push(*refspecs)
    assert done.returncode == 1, done.stderr
    assert clone.repo.refs() == before
    return done.stderr


def test_without_rules_a_fast_forward_goes_through(clone: Clone) -> None:
    head = clone.commit("main", a="a\n")
    assert clone.push("main").returncode == 0
    assert clone.repo.tip() == head


def test_a_classic_required_check_is_refused_as_gh006(clone: Clone) -> None:
    clone.repo.protect(required_checks=[("ci/test", None)])
    clone.commit("main", a="a\n")
    words = refused(clone, "main")
    assert "error: GH006: Protected branch update failed for refs/heads/main." in words
    assert 'remote: - Required status check "ci/test" is expected.' in words
    assert "hook declined to update" not in words
    assert "(protected branch hook declined)" in words


def test_both_layers_speak_when_both_refuse(clone: Clone) -> None:
    clone.repo.protect(required_checks=[("classic", None)])
    clone.repo.ruleset(required_checks=[("modern", None)])
    clone.commit("main", a="a\n")
    words = refused(clone, "main")
    assert "GH006" in words
    assert "GH013: Repository rule violations found for refs/heads/main." in words


@pytest.mark.parametrize(("conclusion", "admitted"), [
    ("success", True), ("neutral", True), ("skipped", True), ("failure", False), ("cancelled", False), (None, False),
])  # fmt: skip
def test_a_required_check_admits_what_github_admits(
    github: Sandbox, clone: Clone, conclusion: str | None, admitted: bool
) -> None:
    ci = github.app("ci")
    clone.repo.ruleset(required_checks=[("ci/test", ci)])
    head = clone.commit("work", a="a\n")
    clone.push("work")
    ci.reports(clone.repo, head, "ci/test", conclusion)
    assert (clone.push("work:main").returncode == 0) is admitted
    assert (clone.repo.tip() == head) is admitted


def test_a_pinned_check_does_not_count_from_another_app(github: Sandbox, clone: Clone) -> None:
    ci, stranger = github.app("ci"), github.app("stranger")
    clone.repo.ruleset(required_checks=[("ci/test", ci)])
    head = clone.commit("work", a="a\n")
    clone.push("work")
    stranger.reports(clone.repo, head, "ci/test", "success")
    stranger.sets_status(clone.repo, head, "ci/test", "success")
    assert 'Required status check "ci/test" is expected.' in refused(clone, "work:main")


def test_the_newest_run_of_a_producer_counts(github: Sandbox, clone: Clone) -> None:
    ci = github.app("ci")
    clone.repo.ruleset(required_checks=[("ci/test", ci)])
    head = clone.commit("work", a="a\n")
    clone.push("work")
    ci.reports(clone.repo, head, "ci/test", "success")
    ci.reports(clone.repo, head, "ci/test", "failure")
    assert 'Required status check "ci/test" is failing.' in refused(clone, "work:main")


def test_a_pull_request_is_required(clone: Clone) -> None:
    clone.repo.ruleset(pull_request=True)
    clone.commit("main", a="a\n")
    assert "Changes must be made through a pull request." in refused(clone, "main")


def test_history_may_not_be_rewritten_or_deleted_where_a_rule_says_so(clone: Clone) -> None:
    clone.repo.commit(files={"b": "b\n"})
    clone.repo.ruleset(rules=["non_fast_forward", "deletion"])
    clone.commit("main", a="a\n")
    assert "Cannot force-push to this branch" in refused(clone, "+main")
    clone.repo.record.default_branch = "other"
    clone.repo.record.rulesets[0].conditions["ref_name"]["include"] = ["refs/heads/main"]
    clone.repo.git.run("symbolic-ref", "HEAD", "refs/heads/other")
    assert "Cannot delete this branch" in refused(clone, ":main")


def test_linear_history_refuses_a_merge_commit_inside_the_push(clone: Clone) -> None:
    clone.repo.ruleset(rules=["required_linear_history"])
    clone.commit("side", b="b\n")
    clone.git("checkout", "-q", "main")
    clone.commit("main", a="a\n")
    clone.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    assert "This branch must not contain merge commits." in refused(clone, "main")


def test_unsigned_commits_are_refused_where_signatures_are_required(clone: Clone) -> None:
    clone.repo.ruleset(rules=["required_signatures"])
    clone.commit("main", a="a\n")
    assert "Commits must have verified signatures." in refused(clone, "main")


def test_a_bypass_actor_passes_and_another_app_does_not(
    github: Sandbox, clone: Clone, hub: AppHandle, tmp_path: Path
) -> None:
    actor = {"actor_type": "Integration", "actor_id": hub.id, "bypass_mode": "always"}
    clone.repo.ruleset(pull_request=True, bypass_actors=[actor])
    head = clone.commit("main", a="a\n")
    other = Clone(clone.repo, clone.folder, github.app("other").token())
    assert "Changes must be made through a pull request." in refused(other, "main")
    assert clone.push("main").returncode == 0
    assert clone.repo.tip() == head


def test_rules_that_are_only_evaluated_refuse_nothing(clone: Clone) -> None:
    clone.repo.ruleset(pull_request=True, enforcement="evaluate")
    clone.commit("main", a="a\n")
    assert clone.push("main").returncode == 0


def test_one_refused_ref_refuses_an_atomic_push(clone: Clone) -> None:
    clone.repo.ruleset(pull_request=True)
    clone.commit("main", a="a\n")
    words = refused(clone, "--atomic", "main", "main:refs/mac/landings/int_1")
    assert "main -> main (push declined due to repository rule violations)" in words
    assert "main -> refs/mac/landings/int_1 (atomic transaction failed)" in words


def test_without_atomic_the_other_refs_go_through(clone: Clone) -> None:
    clone.repo.ruleset(pull_request=True)
    before, head = clone.repo.tip(), clone.commit("main", a="a\n")
    assert clone.push("main", "main:refs/heads/other").returncode == 1
    assert clone.repo.tip() == before
    assert clone.repo.tip("other") == head


def test_a_workflow_file_needs_its_own_permission(github: Sandbox, clone: Clone) -> None:
    clone.commit("work", **{".github__workflows__ci.yml": "on: push\n"})
    words = "refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml`"
    assert words in refused(clone, "work")
    allowed = github.app("other", permissions={"contents": "write", "workflows": "write"})
    assert Clone(clone.repo, clone.folder, allowed.token()).push("work").returncode == 0


def test_pull_refs_are_hidden_from_pushes(clone: Clone) -> None:
    clone.commit("work", a="a\n")
    assert "deny updating a hidden ref" in refused(clone, "work:refs/pull/1/head")


def test_a_repository_may_refuse_other_namespaces(clone: Clone) -> None:
    clone.repo.record.ref_namespaces = ("refs/heads/", "refs/tags/")
    clone.commit("work", a="a\n")
    assert "is not accepted here" in refused(clone, "work:refs/mac/landings/int_1")
    assert clone.push("work").returncode == 0


@pytest.mark.parametrize("narrowed", [{"permissions": {"contents": "read"}}, {"permissions": {"checks": "write"}}])
def test_a_token_without_write_access_reads_at_most(
    clone: Clone, hub: AppHandle, narrowed: dict[str, dict[str, str]]
) -> None:
    weak = Clone(clone.repo, clone.folder, hub.token(**narrowed))
    clone.commit("work", a="a\n")
    before = clone.repo.refs()
    done = weak.push("work")
    assert done.returncode == 128
    assert "403" in done.stderr
    assert clone.repo.refs() == before


def test_an_expired_or_absent_token_is_asked_for_again(github: Sandbox, clone: Clone, hub: AppHandle) -> None:
    hub.revoke_tokens()
    for credential in (clone.credential, "nonsense"):
        done = Clone(clone.repo, clone.folder, credential).git("ls-remote", clone.url)
        assert done.returncode == 128
        assert "Authentication failed" in done.stderr


def test_a_repository_outside_the_token_is_not_found(github: Sandbox, clone: Clone, hub: AppHandle) -> None:
    other = github.repository("acme/other", files={"a": "a\n"})
    narrow = Clone(other, clone.folder, hub.token(repositories=["hub"]))
    assert "not found" in narrow.git("ls-remote", narrow.url).stderr
    wide = Clone(other, clone.folder, hub.token())
    assert wide.git("ls-remote", wide.url).returncode == 0


def test_a_shallow_and_a_partial_clone_work(clone: Clone, tmp_path: Path) -> None:
    sha = clone.repo.commit(files={"big": "x" * 100_000})
    assert clone.git("clone", "-q", "--depth=1", clone.url, str(tmp_path / "shallow")).returncode == 0
    assert clone.git("clone", "-q", "--bare", "--filter=blob:none", clone.url, str(tmp_path / "p")).returncode == 0
    assert clone.git("fetch", "-q", clone.url, sha).returncode == 0


def test_two_pushes_race_for_one_tip_and_one_wins(clone: Clone) -> None:
    before = clone.repo.tip()
    heads = [clone.commit("one", a="1\n")]
    clone.git("checkout", "-q", "main")
    heads.append(clone.commit("two", a="2\n"))
    codes: dict[str, int] = {}

    def land(name: str) -> None:
        lease = f"--force-with-lease=refs/heads/main:{before}"
        codes[name] = clone.push("--atomic", lease, f"{name}:refs/heads/main", f"{name}:refs/mac/{name}").returncode

    racers = [threading.Thread(target=land, args=(name,)) for name in ("one", "two")]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(30)
    assert sorted(codes.values()) == [0, 1]
    winner = "one" if codes["one"] == 0 else "two"
    assert clone.repo.tip() == heads[("one", "two").index(winner)]
    assert list(clone.repo.refs("refs/mac/")) == [f"refs/mac/{winner}"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_repository_works_whoever_owns_its_folder(github: Sandbox, clone: Clone) -> None:
    for path in (clone.repo.path, *clone.repo.path.rglob("*")):
        os.chown(path, 12_345, 12_345)
    assert clone.git("fetch", "-q", clone.url).returncode == 0
    clone.commit("work", a="a\n")
    assert clone.push("work").returncode == 0
    copy = github.repository("acme/copy", source=clone.repo.path)
    assert copy.tip("work") == clone.repo.tip("work")
