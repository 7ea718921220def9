"""A bare repository to play the remote, written to by plain git as strangers do."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.clone import Remote

_WHO = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "@1700000000 +0000",
    "GIT_COMMITTER_DATE": "@1700000000 +0000",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}
Files = Mapping[str, str | None]


@dataclass(frozen=True)
class Place:
    """The remote of a test, by its path."""

    path: Path

    @staticmethod
    def made(path: Path) -> "Place":
        subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
        place = Place(path)
        place.points("refs/heads/main", place.commit({"README.md": "hello\n"}))
        return place

    def remote(self) -> Remote:
        return Remote(repository_id=1, url=str(self.path))

    def git(self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            ["git", *argv], cwd=self.path, input=stdin, capture_output=True, check=True,
            env={**os.environ, **_WHO, **(env or {})},
        )  # fmt: skip
        return done.stdout.decode().strip()

    def commit(self, files: Files, *parents: str, message: str = "work", mode: str = "100644") -> str:
        """A commit with the first parent's files and these changes (None removes one); no ref moves."""
        index = {"GIT_INDEX_FILE": str(self.path / f"index.{os.getpid()}")}
        self.git("read-tree", *([parents[0]] if parents else ["--empty"]), env=index)
        for name, content in files.items():
            if content is None:
                self.git("update-index", "-z", "--index-info", stdin=f"0 {'0' * 40}\t{name}\0".encode(), env=index)
            else:
                blob = self.git("hash-object", "-w", "--stdin", stdin=content.encode())
                self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}", env=index)
        flags = [word for parent in parents for word in ("-p", parent)]
        return self.git("commit-tree", *flags, "-m", message, self.git("write-tree", env=index))

    def points(self, ref: str, sha: str) -> None:
        self.git("update-ref", ref, sha)

    def tip(self, ref: str = "refs/heads/main") -> str | None:
        return self.refs().get(ref)

    def refs(self) -> dict[str, str]:
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines}

    def bundle(self, *argv: str) -> bytes:
        done = subprocess.run(["git", "bundle", "create", "-", *argv], cwd=self.path, capture_output=True, check=True)
        return done.stdout
