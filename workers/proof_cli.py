"""`mac proof verify`: holds a proof against a repository of your own, with the hub's public key and nothing else of
it."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import click
import requests

from pipeline.errors import Rejected, Unavailable
from pipeline.facts import Sha
from pipeline.proof import Verification, predicate_of, verify
from pipeline.refusals import Refusal
from pipeline.signing import PublicKey
from workers.clone import Mirrors, Remote
from workers.git import Git
from workers.land import marker_ref, parse_marker
from workers.mirror import Mirror
from workers.proving import git_facts

TIMEOUT_S: Final = 30
GIT_TOKEN: Final = "MAC_GIT_TOKEN"


@click.group()
def proof() -> None:
    """Proofs of landing."""


@proof.command("verify")
@click.argument("task", required=False)
@click.option("--clone", "clone", required=True, help="A clone of yours (a folder), or a URL to read from afresh.")
@click.option("--key", "keys", multiple=True, help="A public key of the hub, base64; else as the hub publishes them.")
@click.option("--envelope", type=click.Path(exists=True, dir_okay=False), help="The proof from a file, without the hub.")
@click.option("--hub-url", envvar="MAC_HUB_URL", default="http://127.0.0.1:8000", show_default=True)
@click.option("--token", envvar="MAC_TOKEN", default="")
@click.option("--json", "as_json", is_flag=True)
def verify_command(
    *, task: str | None, clone: str, keys: tuple[str, ...], envelope: str | None, hub_url: str, token: str, as_json: bool
) -> int:
    """Check the ten steps of a task's proof against a clone. Exit 0: every step holds; 1: one does not.

    For a folder, fetch the landing markers first: git fetch origin 'refs/mac/*:refs/mac/*'. For a URL that asks for a
    password, put a token into MAC_GIT_TOKEN.
    """
    if (task is None) == (envelope is None):
        raise click.UsageError("name a TASK, or an --envelope")
    content = Path(envelope).read_bytes() if envelope else _ask(hub_url, token, f"/v1/proofs/{task}")
    known = [_key(text) for text in keys] or _published(hub_url, token)
    verification = _verify(content, known, clone)
    click.echo(json.dumps(_document(verification), indent=2) if as_json else _table(verification))
    return 0 if verification.holds else 1


def _verify(envelope: bytes, keys: list[PublicKey], clone: str) -> Verification:
    said = predicate_of(envelope)
    ref, intent = str(said.get("canonical_ref")), str(said.get("intent"))
    with tempfile.TemporaryDirectory(prefix="mac-verify-") as scratch:
        git = Git.prepared(Path(scratch) / "git", os.environ, file_protocol=True)
        if Path(clone).is_dir():
            folder = Path(clone).absolute()
            return _hold(Mirror(folder, git, str(folder), None, remake=lambda: None), envelope, keys, ref, intent)
        secret = os.environ.get(GIT_TOKEN)
        remote = Remote(0, clone, (lambda: secret) if secret else None)
        with Mirrors(Path(scratch) / "mirrors", git, max_bytes=0).open(remote) as mirror:
            found = mirror.ls_remote([ref, marker_ref(intent)])
            mirror.fetch({name: name for name in found})
            return _hold(mirror, envelope, keys, ref, intent)


def _hold(mirror: Mirror, envelope: bytes, keys: list[PublicKey], ref: str, intent: str) -> Verification:
    branch = ref.removeprefix("refs/heads/")
    tip = mirror.resolve(f"refs/remotes/origin/{branch}") or mirror.resolve(ref)
    marker = mirror.resolve(marker_ref(intent))
    read = _marker(mirror, marker) if marker is not None else None
    return verify(envelope, keys, git_facts(mirror, predicate_of(envelope), tip, read, keys))


def _marker(mirror: Mirror, sha: Sha) -> tuple[Sha, bytes] | None:
    found = mirror.objects([sha]).get(sha)
    return parse_marker(found[1]) if found is not None and found[0] == "tag" else None


def _ask(hub_url: str, token: str, path: str) -> bytes:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = requests.get(hub_url.rstrip("/") + path, headers=headers, timeout=TIMEOUT_S, allow_redirects=False)
    except requests.RequestException as failed:
        raise Unavailable("hub_unreachable", f"There is no answer from the hub at {hub_url}.") from failed
    if answer.ok:
        return answer.content
    try:
        said = answer.json()
        refusal = Refusal(said["code"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable("hub_failed", f"The hub answered {answer.status_code}.") from error
    raise Rejected(refusal, said.get("facts"))


def _published(hub_url: str, token: str) -> list[PublicKey]:
    click.echo(f"using the keys that the hub at {hub_url} publishes; --key names one that you trust", err=True)
    return [_key(key["public"]) for key in json.loads(_ask(hub_url, token, "/v1/keys"))["keys"]]


def _key(text: str) -> PublicKey:
    try:
        return PublicKey.from_text(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--key") from error


def _document(verification: Verification) -> dict[str, Any]:
    steps = [{"number": s.number, "name": s.name, "holds": s.holds, "problem": s.problem} for s in verification.steps]
    return {"holds": verification.holds, "key": verification.key_id, "steps": steps}


def _table(verification: Verification) -> str:
    lines = [
        f"{step.number:>3}  {'holds' if step.holds else 'FAILS'}  {step.name.replace('_', ' ')}"
        + (f": {step.problem}" if step.problem else "")
        for step in verification.steps
    ]
    landed = str(verification.predicate.get("landed_sha"))[:12]
    ending = f"the proof holds: {landed} landed" if verification.holds else "the proof does not hold"
    return "\n".join([*lines, ending])
