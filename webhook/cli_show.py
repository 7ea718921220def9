"""How the command line shows things: tables for people, JSON for programs, both on stdout."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from webhook.cli_client import HubClient, from_environment

F = TypeVar("F", bound=Callable[..., Any])

SHORT_ID_CHARS = 8


def hub_options(command: F) -> F:
    """Where the hub is, who asks, and in which form to answer: the options that every verb of the hub has."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Answer with JSON."),
        click.option("--token", envvar="MAC_TOKEN", hidden=True, help="MAC_TOKEN"),
        click.option("--hub-url", envvar="MAC_HUB_URL", hidden=True, help="MAC_HUB_URL"),
    ):
        command = option(command)
    return command


def client(hub_url: str | None, token: str | None) -> HubClient:
    """The hub that those options name."""
    return from_environment(hub_url, token)


def document(found: Mapping[str, Any], *, as_json: bool) -> None:
    """One thing: its fields line by line, what is inside indented. Nothing is shortened; unknown shows as `-`."""
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        for line in _lines(found, ""):
            click.echo(line)


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Many things: one line each with short ids, or a JSON list of all fields."""
    found = list(rows)
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    cells = [[name.upper() for name in columns]] + [[_cell(row.get(name)) for name in columns] for row in found]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
    for line in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def short(identity: str) -> str:
    """An id as tables show it: its kind and enough of it to be told apart; the hub takes it as a prefix."""
    kind, underscore, rest = identity.partition("_")
    known = underscore and len(rest) > SHORT_ID_CHARS and rest.isalnum()
    return f"{kind}_{rest[:SHORT_ID_CHARS]}" if known else identity


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return str(value.get("code", "…"))
    text = short(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _lines(found: Mapping[str, Any], indent: str) -> Iterable[str]:
    for name, value in found.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list) and value:
            yield f"{indent}{name}:"
            for item in value:
                yield f"{indent}  - {json.dumps(item, ensure_ascii=False) if isinstance(item, dict | list) else item}"
        else:
            plain = "-" if value is None or value in ({}, []) else str(value)
            yield f"{indent}{name}: {plain.replace(chr(10), chr(10) + indent + '  ')}"
