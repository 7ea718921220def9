"""The floor of a landing: the git steps alone, over the same smart HTTP, with the same credentials and the same leases."""

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

ASKPASS = """#!/bin/sh
case "$1" in Username*) echo x-access-token ;; *) printf '%s\\n' "$BENCH_TOKEN" ;; esac
"""
IDENTITY = {f"GIT_{who}_{what}": f"bench{mail}" for who in ("AUTHOR", "COMMITTER") for what, mail in
            (("NAME", ""), ("EMAIL", "@mac.invalid"))}  # fmt: skip


@dataclass(frozen=True)
class Floor:
    """Milliseconds from the first step to the moved branch, and to the branch read back."""

    moved_ms: float
    read_back_ms: float


class Git:
    """A warm bare mirror of one remote."""

    def __init__(self, folder: Path, url: str, token: str) -> None:
        self.path, self.url = folder / "floor.git", url
        script = folder / "askpass"
        script.write_text(ASKPASS)
        script.chmod(0o700)
        self._environment = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": str(script),
            "BENCH_TOKEN": token,
            **IDENTITY,
        }
        self("clone", "-q", "--mirror", url, str(self.path), folder=folder)

    def __call__(self, *argv: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *argv], cwd=folder or self.path, env=self._environment, capture_output=True, check=True, text=True
        )
        return done.stdout.strip()

    def propose(self, number: int) -> str:
        """A change on the present tip, pushed to a branch of its own: what a landing begins with. Not timed."""
        self("fetch", "-q", "--no-tags", "--", self.url, "+refs/heads/main:refs/heads/main")
        tip = self("rev-parse", "refs/heads/main")
        blob = subprocess.run(
            ["git", "hash-object", "-w", "--stdin"],
            cwd=self.path,
            input=f"floor {number}\n".encode(),
            capture_output=True,
            check=True,
        )
        listed = self("ls-tree", tip)
        entry = f"100644 blob {blob.stdout.decode().strip()}\tfloor-{number}.txt"
        tree = self._mktree(f"{listed}\n{entry}\n")
        head = self("commit-tree", "-p", tip, "-m", f"Floor {number}", tree)
        self("push", "-q", "--", self.url, f"{head}:refs/heads/floor-{number}")
        return head

    def land(self, number: int, tip: str) -> Floor:
        """Fetch one ref, merge, commit, push branch and marker atomically under leases, read back.

        The rule demands the check at what is pushed, so the head itself lands, as in the hub's fast-forward; merge and
        commit are made all the same, because a landing on other branches needs them.
        """
        branch, marker = "refs/heads/main", f"refs/mac/landings/floor_{number}"
        begun = time.perf_counter()
        self("fetch", "-q", "--no-tags", "--", self.url, f"+refs/heads/floor-{number}:refs/floor/{number}")
        head = f"refs/floor/{number}"
        tree = self("merge-tree", "--write-tree", tip, head)
        self("commit-tree", "-p", tip, "-p", head, "-m", f"Land {number}", tree)
        leases = [f"--force-with-lease={branch}:{tip}", f"--force-with-lease={marker}:"]
        self("push", "-q", "--atomic", *leases, "--", self.url, f"{head}:{branch}", f"{head}:{marker}")
        moved = time.perf_counter()
        found = self("ls-remote", "--", self.url, branch).split()[0]
        ended = time.perf_counter()
        assert found == self("rev-parse", head), "the floor landed something else"
        return Floor((moved - begun) * 1000, (ended - begun) * 1000)

    def remote(self, ref: str) -> str:
        """What a ref of the remote points to."""
        return self("ls-remote", "--", self.url, ref).split()[0]

    def tip(self) -> str:
        """The canonical tip."""
        return self.remote("refs/heads/main")

    def _mktree(self, entries: str) -> str:
        done = subprocess.run(["git", "mktree"], cwd=self.path, input=entries.encode(), capture_output=True, check=True)
        return done.stdout.decode().strip()
