"""The one way to run git: argument lists only, a known configuration, no prompt, no hook, a deadline, bounded output.

Nothing of the machine's or a user's configuration takes part, and nothing of a repository's content is executed. The
token is handed over by an askpass script that reads a variable of that one git process; it is never in an argument, a
URL, a configuration file or a log.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipeline.errors import Unavailable, ensure
from workers.process import run_group

TOKEN_VARIABLE: Final = "MAC_GIT_TOKEN"
_INHERITED: Final = (
    "PATH",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
)
_FIXED: Final[Mapping[str, str]] = {
    "LC_ALL": "C",
    "LANGUAGE": "C",
    "TZ": "UTC",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PROTOCOL_FROM_USER": "0",
}
_CONFIG: Final[Mapping[str, str]] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "credential.helper": "",
    "http.followRedirects": "false",
    "http.proactiveAuth": "basic",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "protocol.http.allow": "always",
    "protocol.https.allow": "always",
    "transfer.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "push.gpgSign": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "init.templateDir": "",
    "init.defaultBranch": "main",
    "advice.pushUpdateRejected": "false",
}
_ASKPASS: Final = f"""#!/bin/sh
case "$1" in
  Username*) echo x-access-token ;;
  *) printf '%s\\n' "${TOKEN_VARIABLE}" ;;
esac
"""
# A push of the canonical branch that finds it "up to date" would still write the marker beside it, and so claim
# somebody else's push as ours. Git hands this hook the refs that are about to move; without the branch, nothing moves.
_PRE_PUSH: Final = """#!/bin/sh
[ -n "$MAC_PUSH_MUST_MOVE" ] || exit 0
while read -r local_ref new remote_ref old; do
  [ "$remote_ref" = "$MAC_PUSH_MUST_MOVE" ] && exit 0
done
echo "mac: the canonical branch would not move" >&2
exit 1
"""
_CLASSES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "credentials_refused",
        ("Authentication failed", "could not read Username", "could not read Password", "error: 401"),
    ),
    ("forbidden", ("error: 403", "Permission to ")),
    ("repository_not_found", ("not found", "does not appear to be a git repository", "error: 404")),
    ("moved", ("unable to update url base from redirection", "error: 301", "error: 302", "error: 308")),
    ("rate_limited", ("error: 429",)),
    ("server_error", ("error: 500", "error: 502", "error: 503", "error: 504")),
    (
        "unreachable",
        ("Could not resolve host", "Failed to connect", "Connection refused", "hung up unexpectedly", "Empty reply",
         "early EOF", "Connection reset", "RPC failed"),
    ),
    (
        "mirror_corrupt",
        ("not a git repository", "is corrupt", "bad object", "unable to read", "invalid index-pack", "bad tree",
         "unable to parse object", "does not point to a valid object", "Could not read ", "missing object",
         "unable to find ", "inflate:", "packfile", "Failed to traverse", "revision walk setup failed"),
    ),
)  # fmt: skip


class GitFailed(Unavailable):
    """A git command that did not do its work. The code names the kind; `stderr` is an excerpt for the log."""

    def __init__(self, code: str, argv: Sequence[str], exit_code: int, stderr: str) -> None:
        super().__init__(code, f"git {' '.join(argv[:2])} ended with {exit_code}: {stderr[-400:].strip()}")
        self.argv = tuple(argv)
        self.exit = exit_code
        self.stderr = stderr


@dataclass(frozen=True, slots=True)
class Answer:
    """What a git command said, with an exit code that the caller named as expected."""

    exit: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """stdout as one line of text, for answers that are a single id or word."""
        return self.stdout.decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class Git:
    """A git that runs under our configuration. Make it with `Git.prepared`."""

    environment: Mapping[str, str]
    hooks: Path
    timeout_ms: int
    effect_timeout_ms: int
    output_max_bytes: int

    @staticmethod
    def prepared(
        home: Path,
        environment: Mapping[str, str],
        *,
        timeout_ms: int = 60_000,
        effect_timeout_ms: int | None = None,
        output_max_bytes: int = 64 * 1024 * 1024,
        file_protocol: bool = False,
    ) -> "Git":
        """A git whose two scripts (askpass, pre-push guard) lie in `home`, which only we may write.

        Of `environment` only the search path, certificates and proxies are taken over. `file_protocol` admits `file://`
        and paths as remotes, which a hub that serves a forge never needs. `effect_timeout_ms` bounds what happens under
        the land slot (pushes, and readings of refs); it is shorter than the slot lives.
        """
        hooks = home / "hooks"
        hooks.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_script(home / "askpass", _ASKPASS)
        _write_script(hooks / "pre-push", _PRE_PUSH)
        config = dict(_CONFIG, **({"protocol.file.allow": "always"} if file_protocol else {}))
        kept = {name: environment[name] for name in _INHERITED if name in environment}
        base = {**kept, **_FIXED, **_config_variables(config), "GIT_ASKPASS": str(home / "askpass")}
        return Git(base, hooks, timeout_ms, effect_timeout_ms or timeout_ms, output_max_bytes)

    def run(
        self,
        *argv: str,
        directory: Path,
        stdin: bytes = b"",
        expected: tuple[int, ...] = (0,),
        token: str | None = None,
        variables: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        timeout_ms: int | None = None,
    ) -> Answer:
        """Run one git command in a directory that is ours and return its answer.

        Raises `GitFailed` for an exit code that is not among the expected, and `Unavailable(time_out)` when the
        deadline passed: its process group is gone by then, but what it had sent to a remote may still take effect.
        """
        ensure(all("\0" not in argument for argument in argv), "an argument holds a NUL byte")
        ended = run_group(
            ("git", *argv),
            directory=directory,
            environment=self._environment(directory, token, variables or {}, config or {}),
            stdin=stdin,
            timeout_ms=self.timeout_ms if timeout_ms is None else timeout_ms,
            output_max_bytes=self.output_max_bytes,
        )
        stderr = ended.stderr.decode("utf-8", "replace")
        if token:
            stderr = stderr.replace(token, "***")
        if ended.timed_out:
            raise Unavailable("time_out", f"git {argv[0]} took longer than its time-out")
        if ended.flooded:
            raise GitFailed("output_too_large", argv, ended.exit, stderr)
        if ended.exit not in expected:
            raise GitFailed(_kind(stderr), argv, ended.exit, stderr)
        return Answer(ended.exit, ended.stdout, stderr)

    def _environment(
        self, directory: Path, token: str | None, variables: Mapping[str, str], config: Mapping[str, str]
    ) -> dict[str, str]:
        count = int(self.environment["GIT_CONFIG_COUNT"])
        own = _config_variables({"safe.directory": str(directory), **config}, count)
        secret = {TOKEN_VARIABLE: token} if token is not None else {}
        return {**self.environment, **variables, **own, **secret}


def _config_variables(config: Mapping[str, str], first: int = 0) -> dict[str, str]:
    """Configuration by environment: it wins over every file, and shows in no argument list."""
    variables = {"GIT_CONFIG_COUNT": str(first + len(config))}
    for number, (key, value) in enumerate(config.items(), first):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def _write_script(path: Path, text: str) -> None:
    """Replaced whole, so that a process that is starting never runs half a script."""
    if path.exists() and path.read_text() == text:
        return
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o700)
    fresh.replace(path)


def _kind(stderr: str) -> str:
    for code, words in _CLASSES:
        if any(word in stderr for word in words):
            return code
    return "git_failed"
