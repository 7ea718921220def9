"""Git's objects in memory, under their real ids: enough of git to be a remote and a mirror, and nothing that forks.

The bytes are those that git stores, so an id made here is the id that git gives. Objects never change, so one store
serves every repository; what a repository *has* is its own set of commits and tags.
"""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Sha: TypeAlias = str
Files: TypeAlias = Mapping[str, Sha]
KINDS: Final = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
WHO: Final = "stranger <stranger@example.invalid>"
FILE_MODE: Final = "100644"


@dataclass(slots=True)
class Store:
    """All objects there are, and what was computed from them once."""

    content: dict[Sha, tuple[str, bytes]] = field(default_factory=dict)
    _files: dict[Sha, dict[str, Sha]] = field(default_factory=dict)
    _ancestors: dict[Sha, frozenset[Sha]] = field(default_factory=dict)

    def put(self, kind: str, body: bytes) -> Sha:
        """Keep an object; its id."""
        sha = hashlib.sha1(b"%s %d\0%s" % (kind.encode(), len(body), body), usedforsecurity=False).hexdigest()
        self.content.setdefault(sha, (kind, body))
        return sha

    def tree(self, files: Files) -> Sha:
        """The tree of these files (path to blob)."""
        entries: dict[str, tuple[str, Sha]] = {}
        folders: dict[str, dict[str, Sha]] = {}
        for path, blob in files.items():
            top, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(top, {})[rest] = blob
            else:
                entries[top] = (FILE_MODE, blob)
        for name, inner in folders.items():
            entries[name] = ("40000", self.tree(inner))
        order = sorted(entries, key=lambda name: name + "/" if name in folders else name)
        return self.put("tree", b"".join(f"{entries[n][0]} {n}\0".encode() + bytes.fromhex(entries[n][1]) for n in order))

    def files(self, tree: Sha) -> dict[str, Sha]:
        """Every file of a tree."""
        if tree not in self._files:
            found: dict[str, Sha] = {}
            body, at = self.content[tree][1], 0
            while at < len(body):
                end = body.index(b"\0", at)
                mode, name = body[at:end].decode().split(" ", 1)
                sha, at = body[end + 1 : end + 21].hex(), end + 21
                if mode == "40000":
                    found |= {f"{name}/{path}": blob for path, blob in self.files(sha).items()}
                else:
                    found[name] = sha
            self._files[tree] = found
        return self._files[tree]

    def commit(self, tree: Sha, parents: Sequence[Sha], message: str, who: str = WHO, at_s: int = 1_700_000_000) -> Sha:
        """A commit object."""
        lines = [f"tree {tree}", *(f"parent {p}" for p in parents)]
        lines += [f"author {who} {at_s} +0000", f"committer {who} {at_s} +0000", "", message]
        return self.put("commit", "\n".join(lines).encode())

    def change(self, base: Sha, files: Mapping[str, str | None], message: str) -> Sha:
        """A commit on `base` with these files written (None: removed)."""
        kept = dict(self.files(self.tree_of(base)))
        for path, text in files.items():
            if text is None:
                kept.pop(path, None)
            else:
                kept[path] = self.put("blob", text.encode())
        return self.commit(self.tree(kept), [base], message)

    def tree_of(self, commit: Sha) -> Sha:
        """The tree of a commit."""
        return self.content[commit][1][5:45].decode()

    def parents(self, sha: Sha) -> tuple[Sha, ...]:
        """The parents of a commit; of a tag, the commit that it names."""
        kind, body = self.content[sha]
        lines = body.split(b"\n\n", 1)[0].decode("utf-8", "replace").split("\n")
        word = "parent " if kind == "commit" else "object "
        return tuple(line.removeprefix(word) for line in lines if line.startswith(word))

    def ancestors(self, sha: Sha) -> frozenset[Sha]:
        """Everything that a commit or tag contains, itself included."""
        if sha not in self._ancestors:
            inner = [self.ancestors(parent) for parent in self.parents(sha)]
            self._ancestors[sha] = frozenset({sha}).union(*inner)
        return self._ancestors[sha]

    def is_ancestor(self, older: Sha, newer: Sha) -> bool:
        """Whether `newer` contains `older`."""
        return older in self.ancestors(newer)

    def merge_base(self, one: Sha, other: Sha) -> Sha | None:
        """A best common ancestor."""
        common = self.ancestors(one) & self.ancestors(other)
        best = [c for c in common if not any(c != d and self.is_ancestor(c, d) for d in common)]
        return min(best, default=None)

    def merge(self, into: Sha, other: Sha) -> tuple[Sha | None, tuple[str, ...]]:
        """The tree of a three-way merge by whole files, or None and the paths in conflict."""
        base = self.merge_base(into, other)
        if base is None:
            return None, ()
        old, ours, theirs = (self.files(self.tree_of(c)) for c in (base, into, other))
        merged, conflicts = {}, []
        for path in sorted({*old, *ours, *theirs}):
            was, mine, yours = old.get(path), ours.get(path), theirs.get(path)
            if mine != yours and was not in (mine, yours):
                conflicts.append(path)
            chosen = mine if yours == was else yours
            if chosen is not None:
                merged[path] = chosen
        return (None, tuple(conflicts)) if conflicts else (self.tree(merged), ())

    def closure(self, commit: Sha, without: frozenset[Sha]) -> list[Sha]:
        """The objects of a commit and its history that `without` does not contain."""
        found: dict[Sha, None] = {}
        for sha in sorted(self.ancestors(commit) - without):
            found[sha] = None
            found |= dict.fromkeys(self._tree_objects(self.tree_of(sha)))
        return list(found)

    def _tree_objects(self, tree: Sha) -> list[Sha]:
        files = self.files(tree)
        folders = {path[:at] for path in files for at, letter in enumerate(path) if letter == "/"}
        inner = [self.tree({p[len(f) + 1 :]: b for p, b in files.items() if p.startswith(f"{f}/")}) for f in folders]
        return [tree, *sorted(inner), *files.values()]

    def pack(self, shas: Sequence[Sha]) -> bytes:
        """A pack file of whole objects, as git writes it."""
        numbers = {kind: number for number, kind in KINDS.items()}
        body = b"PACK" + (2).to_bytes(4, "big") + len(shas).to_bytes(4, "big")
        for sha in shas:
            kind, content = self.content[sha]
            size, first = len(content), numbers[kind] << 4 | len(content) & 15
            size >>= 4
            head = bytearray([first | (128 if size else 0)])
            while size:
                head.append(size & 127 | (128 if size > 127 else 0))
                size >>= 7
            body += bytes(head) + zlib.compress(content, 1)
        return body + hashlib.sha1(body, usedforsecurity=False).digest()

    def unpack(self, pack: bytes) -> list[Sha]:
        """Take in the objects of a pack without deltas."""
        count, at, found = int.from_bytes(pack[8:12], "big"), 12, []
        for _ in range(count):
            kind = KINDS[pack[at] >> 4 & 7]
            while pack[at] & 128:
                at += 1
            inflate = zlib.decompressobj()
            content = inflate.decompress(pack[at + 1 :])
            at = len(pack) - len(inflate.unused_data)
            found.append(self.put(kind, content))
        return found

    def bundle(self, head: Sha, base: Sha) -> bytes:
        """A git bundle with `head`, for who has `base`."""
        text = f"# v2 git bundle\n-{base} base\n{head} refs/heads/mac/work\n\n"
        return text.encode() + self.pack(self.closure(head, self.ancestors(base)))


@dataclass(slots=True)
class Repository:
    """One repository: its refs, and the commits and tags that it has."""

    store: Store
    refs: dict[str, Sha] = field(default_factory=dict)
    held: set[Sha] = field(default_factory=set)

    def take(self, sha: Sha) -> None:
        """Have a commit or tag with all its history."""
        self.held |= self.store.ancestors(sha)

    def has_all(self, sha: Sha) -> bool:
        """Whether nothing of its history is missing here."""
        return self.store.ancestors(sha) <= self.held
