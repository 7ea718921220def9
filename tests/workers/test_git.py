"""git runs in one way: our configuration, no prompt, no hook, a deadline for all of it, and a token nobody can see."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from pipeline.errors import InvariantBroken, Rejected, Unavailable
from tests.sandbox.sandbox import Sandbox
from tests.workers.places import Place
from tests.workers.processes import ends
from tests.workers.town import HEAD, Town
from workers.clone import Mirrors, Remote
from workers.git import TOKEN_VARIABLE, Git, GitFailed
from workers.mirror import Mirror
from workers.process import run_group
from workers.refs import branch_ref, full_ref, whole_sha

GOOD = ["refs/heads/main", "refs/mac/landings/int_1", "refs/heads/a/b.c", "refs/heads/ä", "refs/heads/x@y"]
BAD = [
    "main",
    "refs/main",
    "HEAD",
    "--upload-pack=x",
    "refs/heads/-x",
    "refs/heads/a..b",
    "refs/heads/a b",
    "refs/heads/a~1",
    "refs/heads/a^",
    "refs/heads/a:b",
    "refs/heads/a?",
    "refs/heads/*",
    "refs/heads/[a",
    "refs/heads/a\\b",
    "refs/heads/a.lock",
    "refs/heads/.a",
    "refs/heads/a.lock/b",
    "refs/heads/a/",
    "refs/heads//a",
    "refs/heads/a.",
    "refs/heads/a@{1}",
    "refs/heads/a\x00",
    "refs/heads/a\n",
]


@pytest.mark.parametrize("name", GOOD)
def test_names_that_git_takes_are_taken(name: str) -> None:
    assert full_ref(name) == name
    assert subprocess.run(["git", "check-ref-format", name], check=False).returncode == 0


@pytest.mark.parametrize("name", BAD)
def test_names_that_could_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(Rejected):
        full_ref(name)


@pytest.mark.parametrize("name", [name for name in BAD if "\0" not in name and name.count("/") > 1])
def test_the_refused_names_are_those_that_git_refuses_and_the_dash(name: str) -> None:
    taken_by_git = subprocess.run(["git", "check-ref-format", name], check=False).returncode == 0
    assert taken_by_git == name.startswith("refs/heads/-")


def test_a_branch_named_like_an_option_is_refused() -> None:
    with pytest.raises(Rejected):
        branch_ref("--upload-pack=touch x")


@pytest.mark.parametrize("sha", ["", "abc", "A" * 40, "g" * 40, "a" * 39, "a" * 64, "-" + "a" * 39])
def test_only_a_whole_object_id_passes(sha: str) -> None:
    with pytest.raises(InvariantBroken):
        whole_sha(sha)


def test_nothing_of_a_users_configuration_takes_part(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = Stranger\n[credential]\n\thelper = !touch stolen\n")
    git = Git.prepared(
        tmp_path / "home", {**os.environ, "HOME": str(tmp_path), "GIT_CONFIG_PARAMETERS": "'user.name=x'"}
    )

    assert git.run("config", "user.name", directory=tmp_path, expected=(1,)).text == ""
    assert git.run("config", "core.hooksPath", directory=tmp_path).text == "/dev/null"


def test_files_and_foreign_protocols_are_no_remotes(tmp_path: Path, place: Place) -> None:
    git = Git.prepared(tmp_path / "home", os.environ)

    for url in [
        str(place.path),
        f"file://{place.path}",
        "ext::touch pwned",
        "ssh://example.org/x",
        "git://127.0.0.1/x",
    ]:
        with pytest.raises(GitFailed, match="not allowed"):
            git.run("ls-remote", "--", url, directory=tmp_path)
    assert not (tmp_path / "pwned").exists()


def test_a_hook_in_a_mirror_is_not_run(place: Place, mirror: Mirror) -> None:
    hook = mirror.path / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    tip = place.tip()
    assert tip is not None

    mirror.keep("refs/hub/x", tip)

    assert not (mirror.path / "ran").exists()


def test_a_hanging_transport_ends_at_the_deadline_with_all_its_children(tmp_path: Path, place: Place) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 60 & echo $! > {tmp_path}/child\nwait\n")
    slow.chmod(0o755)
    git = Git.prepared(tmp_path / "home", os.environ, file_protocol=True, timeout_ms=700)

    with pytest.raises(Unavailable) as failure:
        git.run("ls-remote", f"--upload-pack={slow}", "--", str(place.path), directory=tmp_path)

    assert failure.value.code == "time_out"
    assert ends(int((tmp_path / "pid").read_text()))
    assert ends(int((tmp_path / "child").read_text()))


def test_a_helper_left_behind_by_a_program_that_ended_is_killed(tmp_path: Path) -> None:
    script = f"sleep 60 >/dev/null 2>&1 & echo $! > {tmp_path}/child"

    ended = run_group(
        ["sh", "-c", script],
        directory=tmp_path,
        environment=os.environ,
        stdin=b"",
        timeout_ms=5_000,
        output_max_bytes=10,
    )

    assert (ended.exit, ended.timed_out) == (0, False)
    assert ends(int((tmp_path / "child").read_text()))


def test_a_flood_of_output_is_cut_off(tmp_path: Path) -> None:
    ended = run_group(
        ["yes"], directory=tmp_path, environment=os.environ, stdin=b"", timeout_ms=5_000, output_max_bytes=100_000
    )

    assert ended.flooded
    assert len(ended.stdout) < 300_000


def test_more_input_than_a_pipe_holds_goes_in_and_comes_back(tmp_path: Path) -> None:
    text = os.urandom(1_000_000)

    ended = run_group(
        ["cat"], directory=tmp_path, environment=os.environ, stdin=text, timeout_ms=5_000, output_max_bytes=2_000_000
    )

    assert ended.stdout == text


def test_the_token_is_seen_by_git_alone(town: Town, github: Sandbox, tmp_path: Path) -> None:
    """While the remote holds its answer, the children are looked at from outside."""
    forge = town.forge()
    secret = forge.token.secret
    order = github.orders.add("GET", "*/info/refs", skip=1, hold="before")
    remote = Remote(town.repo.id, town.repo.clone_url, lambda: secret)
    with Mirrors(tmp_path / "mirrors", town.git, max_bytes=10**9).open(remote) as mirror:
        reading = threading.Thread(target=mirror.ls_remote, args=([f"refs/heads/{HEAD}"],))
        reading.start()
        assert order.wait_reached(10)
        seen = _children_of_this_process()
        order.release()
        reading.join(10)

    argvs = [argv for argv, _ in seen]
    assert any("git-remote-http" in argv for argv in argvs)
    assert not any(secret in argv for argv in argvs)
    carriers = {argv.split("\0")[0].rsplit("/", 1)[-1] for argv, environment in seen if secret in environment}
    assert carriers <= {"git", "git-remote-http"}
    assert secret not in os.environ.values()
    for file in [p for p in tmp_path.rglob("*") if p.is_file() and "github" not in p.parts]:
        assert secret.encode() not in file.read_bytes(), file


def test_a_token_in_an_error_is_covered(tmp_path: Path) -> None:
    git = Git.prepared(tmp_path / "home", os.environ)

    with pytest.raises(GitFailed) as failure:
        git.run("rev-parse", "--verify", "s3cret", directory=tmp_path, token="s3cret")

    assert "s3cret" not in failure.value.stderr
    assert TOKEN_VARIABLE not in os.environ


def test_an_address_with_credentials_is_refused(mirrors: Mirrors) -> None:
    with pytest.raises(InvariantBroken), mirrors.open(Remote(1, "https://user:secret@example.org/x.git")):
        pass


def test_refused_credentials_are_named_and_nothing_prompts(town: Town, tmp_path: Path) -> None:
    remote = Remote(town.repo.id, town.repo.clone_url, lambda: "expired")
    with (
        Mirrors(tmp_path / "mirrors", town.git, max_bytes=10**9).open(remote) as mirror,
        pytest.raises(GitFailed) as failure,
    ):
        mirror.ls_remote(["refs/heads/main"])

    assert failure.value.code == "credentials_refused"


def _children_of_this_process() -> list[tuple[str, str]]:
    """Argument list and environment of every living descendant, as the kernel shows them."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found: list[tuple[str, str]] = []
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor != os.getpid():
            ancestor = parents[ancestor]
        if ancestor == os.getpid() and pid != os.getpid():
            try:
                process = Path(f"/proc/{pid}")
                found.append(((process / "cmdline").read_text(), (process / "environ").read_text()))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found
