"""The whole road of a change, by PyGithub and real git: branch, pull request, checks, landing, read back."""

from pathlib import Path

from github import Auth, Github, GithubIntegration

from tests.sandbox.sandbox import AppHandle, Sandbox
from tests.sandbox.tests.client import Clone, ask


def client(github: Sandbox, app: AppHandle) -> Github:
    integration = GithubIntegration(
        auth=Auth.AppAuth(app.id, app.private_key),
        base_url=github.url,
        seconds_between_requests=0,
        seconds_between_writes=0,
    )
    return integration.get_github_for_installation(integration.get_repo_installation("acme", "hub").id)


def test_a_change_goes_from_branch_to_canonical_branch(github: Sandbox, tmp_path: Path) -> None:
    repo = github.repository("acme/hub", files={"README.md": "hello\n"})
    hub, ci = github.app("mac-hub"), github.app("ci")
    repo.ruleset(required_checks=[("ci/test", ci)], strict=True)
    before = repo.tip()
    clone = Clone.of(repo, hub, tmp_path / "clone")
    head = clone.commit("mac/task_1", a="a\n")
    assert clone.push("mac/task_1").returncode == 0

    forge = client(github, hub).get_repo("acme/hub")
    pull = forge.create_pull(base="main", head="mac/task_1", title="Add a", body="")
    assert (pull.number, pull.head.sha, pull.merged, pull.mergeable_state) == (1, head, False, "blocked")

    refused = clone.push("mac/task_1:main")
    assert refused.returncode == 1
    assert 'Required status check "ci/test" is expected.' in refused.stderr
    assert repo.tip() == before

    run = forge.create_check_run("mac/review", head, status="in_progress", external_id="att_1")
    run.edit(conclusion="success", output={"title": "Approved", "summary": "All found."})
    ci.reports(repo, head, "ci/test", "success")
    runs = {r.name: (r.app.slug, r.conclusion) for r in forge.get_commit(head).get_check_runs()}
    assert runs == {"ci/test": ("ci", "success"), "mac/review": ("mac-hub", "success")}

    landed = clone.push(
        "--atomic", f"--force-with-lease=refs/heads/main:{before}", "mac/task_1:refs/heads/main",
        "--force-with-lease=refs/mac/landings/int_1:", "mac/task_1:refs/mac/landings/int_1",
    )  # fmt: skip
    assert landed.returncode == 0, landed.stderr
    assert repo.tip() == head
    assert repo.refs("refs/mac/") == {"refs/mac/landings/int_1": head}
    again = forge.get_pull(1)
    assert (again.merged, again.state, again.merge_commit_sha) == (True, "closed", head)
    assert forge.get_git_ref("heads/main").object.sha == head
    assert github.token_mints() == 1


def test_a_marker_that_is_there_refuses_the_whole_atomic_push(github: Sandbox, tmp_path: Path) -> None:
    repo, hub = github.repository("acme/hub", files={"README.md": "hello\n"}), github.app("mac-hub")
    before = repo.tip()
    repo.move("refs/mac/landings/int_1", before)
    clone = Clone.of(repo, hub, tmp_path / "clone")
    clone.commit("work", a="a\n")
    refused = clone.push(
        "--atomic", f"--force-with-lease=refs/heads/main:{before}", "work:refs/heads/main",
        "--force-with-lease=refs/mac/landings/int_1:", "work:refs/mac/landings/int_1",
    )  # fmt: skip
    assert refused.returncode == 1
    assert repo.tip() == before
    assert repo.refs("refs/mac/") == {"refs/mac/landings/int_1": before}


def test_a_marker_may_be_a_tag_object_and_is_read_back_whole(github: Sandbox, tmp_path: Path) -> None:
    repo, hub = github.repository("acme/hub", files={"README.md": "hello\n"}), github.app("mac-hub")
    clone = Clone.of(repo, hub, tmp_path / "clone")
    head = clone.commit("work", a="a\n")
    assert clone.git("tag", "-a", "-m", "the signed intent", "int_1", head).returncode == 0
    tag = clone.git("rev-parse", "int_1").stdout.strip()
    landed = clone.push("--atomic", "work:refs/heads/main", f"{tag}:refs/mac/landings/int_1")
    assert landed.returncode == 0, landed.stderr
    assert repo.refs("refs/mac/") == {"refs/mac/landings/int_1": tag}
    listed = clone.git("ls-remote", clone.url, "refs/mac/landings/*").stdout
    assert listed.split()[:2] == [tag, "refs/mac/landings/int_1"]
    assert clone.git("fetch", "-q", clone.url, "refs/mac/landings/int_1:refs/read/int_1").returncode == 0
    shown = ask(github, hub.token(), "GET", "/repos/acme/hub/git/ref/mac/landings/int_1").json()
    assert shown["object"]["type"] == "tag"
    assert github.deliveries() == []


def test_a_sandbox_is_quick_to_have(tmp_path: Path) -> None:
    for number in range(3):
        with Sandbox.start(tmp_path / str(number)) as started:
            assert started.repository("acme/hub", files={"a": "a\n"}).tip()
            assert started.calls() == {}
