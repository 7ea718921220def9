"""git over smart HTTP: the real upload-pack and receive-pack, behind GitHub's authentication and rules.

A push is judged in a real pre-receive hook, inside git's quarantine. The hook is a few lines of shell: it hands the
proposed updates to this process through inherited pipes and prints the verdict, so its start costs nothing. An
update hook then refuses the refs that were judged badly, so that others of a push go through unless it is atomic.
"""

import gzip
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from werkzeug.wrappers import Response

from tests.sandbox import moved
from tests.sandbox.auth import Caller, identify
from tests.sandbox.deliveries import Courier
from tests.sandbox.gitdir import GitDir, environment
from tests.sandbox.reply import Refused
from tests.sandbox.rules import Update, judge_update, push_text, refusal_reason
from tests.sandbox.world import Repository, World

PATH = re.compile(r"/(?P<owner>[^/]+)/(?P<repo>[^/]+?)(?:\.git)?/(?P<what>info/refs|git-upload-pack|git-receive-pack)")
LONGEST_S = 300
WORKFLOW_REFUSED = "refusing to allow a GitHub App to create or update workflow"
PRE_RECEIVE = """#!/bin/sh
{ printf '%s\\n' "$GIT_OBJECT_DIRECTORY" "$GIT_ALTERNATE_OBJECT_DIRECTORIES"; cat; echo .; } > "/dev/fd/$SANDBOX_ASK"
while IFS= read -r line; do
    case "$line" in .) exit 0 ;; *) printf '%s\\n' "$line" >&2 ;; esac
done < "/dev/fd/$SANDBOX_ANSWER"
exit 1
"""
UPDATE = """#!/bin/sh
! grep -qxF -e "$1" "$SANDBOX_REFUSED"
"""
CHATTER = b"hook declined to update"
ATOMIC = "atomic transaction failed"


def install_hooks(home: Path) -> Path:
    """Writes the hooks that every push runs; returns their folder, for `core.hooksPath`."""
    folder = home / "hooks"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("pre-receive", PRE_RECEIVE), ("update", UPDATE)):
        hook = folder / name
        hook.write_text(text)
        hook.chmod(0o755)
    return folder


@dataclass
class Asked:
    """One git request: who, on which repository, for which service."""

    courier: Courier
    hooks: Path
    caller: Caller
    repository: Repository
    service: str
    refused: Path = Path()
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def world(self) -> World:
        return self.courier.world


def _plain(status: int, text: str, **headers: str) -> Response:
    return Response(f"{text}\n", status, headers, content_type="text/plain; charset=utf-8")


def answer(
    courier: Courier, hooks: Path, *, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
) -> tuple[Response, str]:
    """The answer to one git request, and the caller's name for the log."""
    match = PATH.fullmatch(path)
    assert match is not None
    what = match["what"]
    service = query.get("service", "") if what == "info/refs" else what
    try:
        with courier.world.lock:
            caller = identify(courier.world, headers.get("Authorization"))
            repository = _admitted(courier.world, caller, f"{match['owner']}/{match['repo']}", service)
    except Refused as refused:
        realm = {"WWW-Authenticate": 'Basic realm="GitHub"'} if refused.status == 401 else {}
        return _plain(refused.status, str(refused.body["message"]), **realm), "refused"
    asked = Asked(courier, hooks, caller, repository, service)
    if headers.get("Content-Encoding") in ("gzip", "x-gzip"):
        body = gzip.decompress(body)
    protocol = headers.get("Git-Protocol", "")
    if what == "info/refs":
        return _advertise(asked, protocol), caller.name
    return (_receive(asked, body) if service == "git-receive-pack" else _upload(asked, protocol, body)), caller.name


def _admitted(world: World, caller: Caller, full_name: str, service: str) -> Repository:
    repository = world.repository(full_name) or world.renamed(full_name)
    writes = service == "git-receive-pack"
    if service not in ("git-upload-pack", "git-receive-pack"):
        raise Refused(403, "Please upgrade your git client.")
    nobody = caller.token is None and caller.person is None
    if nobody and (writes or repository is None or repository.private):
        raise Refused(401, "Repository not found." if caller.app is None else "Invalid username or token.")
    if repository is None or not caller.sees(repository):
        raise Refused(404, "Repository not found.")
    if writes and not caller.may("contents", "write"):
        raise Refused(403, "Write access to repository not granted.")
    if not writes and repository.private and not caller.may("contents", "read"):
        raise Refused(403, "Resource not accessible by integration")
    return repository


def _run(asked: Asked, argv: list[str], body: bytes, protocol: str) -> bytes:
    program = asked.service.removeprefix("git-")
    done = subprocess.run(
        ["git", program, "--stateless-rpc", *argv, str(asked.repository.path)],
        input=body,
        capture_output=True,
        env=environment({"GIT_PROTOCOL": protocol} if protocol else None),
        check=False,
        timeout=LONGEST_S,
    )
    return done.stdout


def _advertise(asked: Asked, protocol: str) -> Response:
    out = _run(asked, ["--http-backend-info-refs"], b"", protocol)
    if "version=2" not in protocol or asked.service == "git-receive-pack":
        first = f"# service={asked.service}\n"
        out = f"{len(first) + 4:04x}{first}0000".encode() + out
    return _git_response(out, f"application/x-{asked.service}-advertisement")


def _upload(asked: Asked, protocol: str, body: bytes) -> Response:
    return _git_response(_run(asked, [], body, protocol), "application/x-git-upload-pack-result")


def _git_response(out: bytes, kind: str) -> Response:
    return Response(out, 200, {"Cache-Control": "no-cache, max-age=0, must-revalidate"}, content_type=kind)


def _receive(asked: Asked, body: bytes) -> Response:
    """Runs receive-pack with the judge beside it, then draws the consequences of what moved."""
    with tempfile.NamedTemporaryFile(dir=asked.hooks.parent, prefix="refused-") as refused:
        asked.refused = Path(refused.name)
        out = _receive_pack(asked, body)
    with asked.world.lock:
        moved.settle(asked.courier, asked.repository, moved.actor_or_ghost(asked.courier, asked.caller.actor))
    return _git_response(with_reasons(out, asked.reasons), "application/x-git-receive-pack-result")


def _receive_pack(asked: Asked, body: bytes) -> bytes:
    ask_read, ask_write = os.pipe()
    answer_read, answer_write = os.pipe()
    pipes = {"SANDBOX_ASK": str(ask_write), "SANDBOX_ANSWER": str(answer_read), "SANDBOX_REFUSED": str(asked.refused)}
    process = subprocess.Popen(
        ["git", "receive-pack", "--stateless-rpc", str(asked.repository.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(pipes, asked.hooks),
        pass_fds=(ask_write, answer_read),
    )
    os.close(ask_write)
    os.close(answer_read)
    judge = threading.Thread(target=_judge, args=(asked, ask_read, answer_write), daemon=True)
    judge.start()
    try:
        out, _ = process.communicate(body, timeout=LONGEST_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        judge.join(LONGEST_S)
    return out


def _judge(asked: Asked, ask_read: int, answer_write: int) -> None:
    """Reads what the hook asks, and writes the verdict; without a question there is nothing to say."""
    with open(ask_read, "rb") as ask, open(answer_write, "wb") as verdict:
        lines: list[str] = []
        for raw in ask:
            line = raw.decode().rstrip("\n")
            if line == ".":
                break
            lines.append(line)
        else:
            return
        said = _verdict(asked, lines)
        asked.refused.write_text("".join(f"{ref}\n" for ref in asked.reasons))
        verdict.write("".join(f"{line}\n" for line in [*said, "."]).encode())


def _verdict(asked: Asked, lines: list[str]) -> list[str]:
    """What stands against the push, in the words that the pusher reads; empty if it may go on."""
    places, updates = lines[:2], [line.split(" ", 2) for line in lines[2:]]
    names = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")
    git = GitDir(asked.repository.path, {n: v for n, v in zip(names, places, strict=True) if v})
    said: list[str] = []
    with asked.world.lock:
        for old, new, ref in updates:
            said += _against(asked, git, Update(ref, old, new))
    return said


def _against(asked: Asked, git: GitDir, update: Update) -> list[str]:
    admitted = asked.repository.ref_namespaces
    if admitted is not None and not update.ref.startswith(admitted):
        asked.reasons[update.ref] = "funny refname"
        return [f"error: cannot update ref '{update.ref}': this namespace is not accepted here"]
    workflow = _new_workflow(asked, git, update)
    if workflow is not None:
        text = f"{WORKFLOW_REFUSED} `{workflow}` without `workflows` permission"
        asked.reasons[update.ref] = text
        return [f"error: {text}"]
    violations = judge_update(asked.repository, git, asked.caller, update)
    if not violations:
        return []
    asked.reasons[update.ref] = refusal_reason(violations)
    return push_text(asked.world.base_url, asked.repository, update, violations)


def _new_workflow(asked: Asked, git: GitDir, update: Update) -> str | None:
    """A workflow file in the commits that nobody had pushed before, if the caller may not write such."""
    if asked.caller.may("workflows", "write") or git.commit_sha(update.new) is None:
        return None
    named = git.run("log", "--format=", "--name-only", update.new, "--not", "--all", "--", ".github/workflows")
    return next(iter(named.split("\n")), "") or None


def with_reasons(out: bytes, reasons: Mapping[str, str]) -> bytes:
    """A report of receive-pack in which refused refs carry GitHub's reason instead of the hook's."""
    if not reasons:
        return out
    report, rest = b"", b""
    for packet in _packets(out):
        if packet[:1] == b"\x01":
            report += packet[1:]
        elif packet and CHATTER not in packet:
            rest += _packet(packet)
    changed = b"".join(_packet(_with_reason(line, reasons)) for line in _packets(report))
    return rest + _packet(b"\x01" + changed + b"0000") + b"0000"


def _with_reason(line: bytes, reasons: Mapping[str, str]) -> bytes:
    words = line.decode().rstrip("\n").split(" ", 2)
    if words[0] == "ng":
        atomic = ATOMIC if words[2].startswith("atomic") else words[2]
        return f"ng {words[1]} {reasons.get(words[1], atomic)}\n".encode()
    return line


def _packets(stream: bytes) -> list[bytes]:
    found, at = [], 0
    while at + 4 <= len(stream):
        size = int(stream[at : at + 4], 16)
        if size > 4:
            found.append(stream[at + 4 : at + size])
        at += max(size, 4)
    return found


def _packet(payload: bytes) -> bytes:
    return b"%04x" % (len(payload) + 4) + payload
