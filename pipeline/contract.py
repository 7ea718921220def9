"""The repository's contract, `.mac/project.yaml`: what evidence must show, and how changes land.

It is read from the canonical branch, never from the head that it judges. A contract that cannot be read is refused with
the line that is wrong; nothing is guessed, because a typo in a guard must not open it.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from pipeline.canonical import digest_bytes
from pipeline.checks import ACCEPTABLE, CONCLUSIONS, Standing
from pipeline.errors import Rejected
from pipeline.facts import LandPolicy
from pipeline.refusals import Refusal

CONTRACT_PATH = ".mac/project.yaml"
CONTRACT_SCHEMA = "mac.repository_contract.v1"
_UNFIT = re.compile("[\x00\ud800-\udfff]")
METHODS = ("fast_forward", "merge", "squash")
BYTES_MAX = 64 * 1024
COUNT_DIGITS_MAX = 9


@dataclass(frozen=True, slots=True)
class LandRules:
    """The contract's `land` section. Limits are counts of files and of changed lines (None: no limit)."""

    method: str = "fast_forward"
    required_checks: tuple[str, ...] = ()
    accepted: frozenset[tuple[str, str]] = frozenset()
    allowed_paths: tuple[str, ...] = ("**",)
    max_files: int | None = None
    max_lines: int | None = None
    delete_branch: bool = True

    def policy(self) -> LandPolicy:
        """The part that decisions need."""
        return LandPolicy(self.method, self.required_checks, self.accepted)


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract as read. `digest` is over the raw bytes; commands are argument vectors, never shell text."""

    digest: str
    project: str
    test_commands: tuple[tuple[str, ...], ...]
    platforms: tuple[str, ...] = ()
    required_commands: tuple[str, ...] = ()
    bootstrap_command: tuple[str, ...] | None = None
    bootstrap_creates: str | None = None
    evidence_required: tuple[str, ...] = ("repository_change",)
    land: LandRules = field(default_factory=LandRules)


class _Loader(yaml.SafeLoader):
    """YAML without aliases: a list that is named once and meant a thousand times costs what it seems to cost."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # the stubs leave its types out
            raise yaml.composer.ComposerError(None, None, "aliases are not read here", mark)
        return super().compose_node(parent, index)


class _Broken(Exception):
    def __init__(self, node: yaml.Node | None, problem: str) -> None:
        super().__init__(problem)
        self.line = node.start_mark.line + 1 if node is not None else 1
        self.problem = problem


def parse(content: bytes) -> Contract:
    """Read a contract. Raises `Rejected(contract_broken)` with the line and what is wrong there."""
    try:
        return _contract(content)
    except _Broken as broken:
        line, problem = broken.line, broken.problem
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, problem = (mark.line + 1 if mark else 1), error.problem or "not YAML"
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        line, problem = 1, f"not YAML ({type(error).__name__})"
    raise Rejected(Refusal.CONTRACT_BROKEN, {"path": CONTRACT_PATH, "line": line, "problem": problem})


def _contract(content: bytes) -> Contract:
    if len(content) > BYTES_MAX:
        raise _Broken(None, f"larger than {BYTES_MAX} bytes")
    root = yaml.compose(content.decode(), Loader=_Loader)
    if root is None:
        raise _Broken(None, "empty")
    top = _Section(root, "the contract", _TOP)
    schema = top.text("schema")
    if schema != CONTRACT_SCHEMA:
        raise _Broken(top.node("schema") or root, f"schema must be {CONTRACT_SCHEMA}")
    toolchain = top.section("toolchain", ("required_commands",))
    bootstrap = top.section("bootstrap", ("command", "creates"))
    test = top.section("test", ("command",))
    evidence = top.section("evidence", ("required",))
    commands = test.commands("command")
    if not commands:
        raise _Broken(top.node("test") or root, "test.command must name at least one command")
    first = bootstrap.commands("command")
    return Contract(
        digest=digest_bytes(content),
        project=top.text("project"),
        test_commands=commands,
        platforms=top.texts("platforms"),
        required_commands=toolchain.texts("required_commands"),
        bootstrap_command=first[0] if first else None,
        bootstrap_creates=bootstrap.optional("creates"),
        evidence_required=evidence.texts("required") or ("repository_change",),
        land=_land(top.section("land", _LAND)),
    )


_TOP = ("schema", "project", "platforms", "toolchain", "bootstrap", "test", "evidence", "land")
_LAND = (
    "method",
    "required_checks",
    "accepted_conclusions",
    "allowed_paths",
    "max_files",
    "max_lines",
    "delete_branch",
)


def _land(land: "_Section") -> LandRules:
    method = land.optional("method") or "fast_forward"
    if method not in METHODS:
        raise _Broken(land.node("method"), f"land.method must be one of {', '.join(METHODS)}")
    return LandRules(
        method=method,
        required_checks=land.texts("required_checks"),
        accepted=_accepted(land),
        allowed_paths=_allowed_paths(land),
        max_files=land.count("max_files"),
        max_lines=land.count("max_lines"),
        delete_branch=land.flag("delete_branch", default=True),
    )


def _allowed_paths(land: "_Section") -> tuple[str, ...]:
    """Everything where nothing is said; an empty list would say nothing or all, so it is refused."""
    paths = land.texts("allowed_paths")
    if land.node("allowed_paths") is not None and not paths:
        raise _Broken(land.node("allowed_paths"), "allowed_paths must name at least one path")
    return paths or ("**",)


def _accepted(land: "_Section") -> frozenset[tuple[str, str]]:
    """`accepted_conclusions: {ci/docs: [skipped]}`: the only way to let such a conclusion count."""
    pairs = set()
    for context, conclusions in land.mapping("accepted_conclusions").items():
        for conclusion in _texts(conclusions, "accepted_conclusions"):
            if conclusion not in ACCEPTABLE and CONCLUSIONS.get(conclusion) is not Standing.PASS:
                raise _Broken(conclusions, f"{conclusion} cannot be accepted")
            pairs.add((context, conclusion))
    return frozenset(pairs)


class _Section:
    """A mapping of the contract, read by name; a key that is unknown or stands twice is refused at its line."""

    def __init__(self, node: yaml.Node | None, name: str, allowed: tuple[str, ...]) -> None:
        self.name = name
        self._nodes = _mapping(node, name, allowed) if node is not None else {}
        self._own = node

    def node(self, key: str) -> yaml.Node | None:
        return self._nodes.get(key)

    def section(self, key: str, allowed: tuple[str, ...]) -> "_Section":
        return _Section(self.node(key), key, allowed)

    def mapping(self, key: str) -> Mapping[str, yaml.Node]:
        node = self.node(key)
        return _mapping(node, key) if node is not None else {}

    def text(self, key: str) -> str:
        found = self.optional(key)
        if not found:
            raise _Broken(self.node(key) or self._own, f"{key} is missing")
        return found

    def optional(self, key: str) -> str | None:
        node = self.node(key)
        return None if node is None else _text(node, key)

    def texts(self, key: str) -> tuple[str, ...]:
        node = self.node(key)
        return () if node is None else _texts(node, key)

    def commands(self, key: str) -> tuple[tuple[str, ...], ...]:
        node = self.node(key)
        if node is None:
            return ()
        texts = _texts(node, key) if isinstance(node, yaml.SequenceNode) else (_text(node, key),)
        return tuple(_command(node, text) for text in texts)

    def count(self, key: str) -> int | None:
        node = self.node(key)
        if node is None:
            return None
        text = _scalar(node, "tag:yaml.org,2002:int")
        if text is None or not text.isdecimal() or text.startswith("0") or len(text) > COUNT_DIGITS_MAX:
            raise _Broken(node, f"{key} must be a whole number above zero")
        return int(text)

    def flag(self, key: str, *, default: bool) -> bool:
        node = self.node(key)
        if node is None:
            return default
        text = _scalar(node, "tag:yaml.org,2002:bool")
        if text is None:
            raise _Broken(node, f"{key} must be true or false")
        return text.lower() in ("true", "yes", "on")


def _scalar(node: yaml.Node, tag: str) -> str | None:
    return str(node.value) if isinstance(node, yaml.ScalarNode) and node.tag == tag else None


def _mapping(node: yaml.Node, name: str, allowed: tuple[str, ...] | None = None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise _Broken(node, f"{name} must be a mapping")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        text = _text(key, "a key")
        if text in found:
            raise _Broken(key, f"{text} stands twice")
        if allowed is not None and text not in allowed:
            raise _Broken(key, f"{name} does not know {text}")
        found[text] = value
    return found


def _text(node: yaml.Node, name: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str":
        raise _Broken(node, f"{name} must be a text")
    text = str(node.value)
    if _UNFIT.search(text):
        raise _Broken(node, f"{name} holds a character that no text may hold")
    return text


def _texts(node: yaml.Node, name: str) -> tuple[str, ...]:
    if not isinstance(node, yaml.SequenceNode):
        raise _Broken(node, f"{name} must be a list of texts")
    return tuple(_text(item, f"each of {name}") for item in node.value)


def _command(node: yaml.Node, text: str) -> tuple[str, ...]:
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        raise _Broken(node, f"a command cannot be split into words: {error}") from error
    if not argv:
        raise _Broken(node, "a command is empty")
    return argv
