"""`mac project`: register repositories and see them."""

import time
from typing import Any

import click

from webhook import cli_show
from webhook.cli_client import HubClient

POLL_S = 0.5


@click.group()
def project() -> None:
    """Registered repositories."""


@project.command()
@click.argument("repository", metavar="OWNER/REPOSITORY")
@click.option("--name", help="Its name at the hub; the repository's name if not given.")
@click.option("--branch", default="main", show_default=True, help="The canonical branch.")
@click.option("--wait", is_flag=True, help="Wait until it is ready (exit 0) or refused (exit 1).")
@click.option("--wait-ms", type=click.IntRange(min=1), default=120_000, show_default=True)
@cli_show.hub_options
def add(
    *,
    repository: str,
    name: str | None,
    branch: str,
    wait: bool,
    wait_ms: int,
    hub_url: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Register a repository."""
    owner, slash, short = repository.partition("/")
    if not (owner and slash and short) or "/" in short:
        raise click.BadParameter("expected OWNER/REPOSITORY", param_hint="REPOSITORY")
    hub = cli_show.client(hub_url, token)
    wanted = {"name": name or short.lower(), "owner": owner, "repository": short, "canonical_branch": branch}
    found = hub.post("/v1/projects", wanted)
    if wait:
        found = _settled(hub, found, time.monotonic() + wait_ms / 1000)
    cli_show.document(found, as_json=as_json)
    return 0 if not wait or found["state"] == "ready" else 1


@project.command("list")
@cli_show.hub_options
def listed(hub_url: str | None, token: str | None, as_json: bool) -> None:
    """All projects, the oldest first."""
    rows = cli_show.client(hub_url, token).rows("/v1/projects")
    cli_show.table(rows, ("id", "name", "owner", "repository", "canonical_branch", "state", "paused"), as_json=as_json)


@project.command()
@click.argument("project")
@cli_show.hub_options
def show(project: str, hub_url: str | None, token: str | None, as_json: bool) -> None:
    """One project by name or id."""
    cli_show.document(cli_show.client(hub_url, token).get(f"/v1/projects/{project}"), as_json=as_json)


def _order(verb: str, help_text: str, *, reasoned: bool) -> None:
    @project.command(verb, help=help_text)
    @click.argument("project")
    @click.option("--why", required=reasoned, help="The reason, which its history keeps.")
    @cli_show.hub_options
    def ordered(project: str, why: str | None, hub_url: str | None, token: str | None, as_json: bool) -> None:
        said = cli_show.client(hub_url, token).post(f"/v1/projects/{project}/{verb}", {"why": why})
        cli_show.document(said, as_json=as_json)


_order("pause", "Lease and land nothing more of it; what is being landed is settled all the same.", reasoned=True)
_order("resume", "Go on where it was left.", reasoned=False)


def _settled(hub: HubClient, found: dict[str, Any], until: float) -> dict[str, Any]:
    """The project once a worker has read its repository, or as it is when the time is up."""
    while found["state"] == "registering" and time.monotonic() < until:
        time.sleep(POLL_S)
        found = hub.get(f"/v1/projects/{found['id']}")
    if found["state"] == "registering":
        click.echo("the repository was not read in time; is a worker running?", err=True)
    return found
