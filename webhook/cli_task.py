"""`mac task`: ask for work and see what becomes of it."""

from typing import IO

import click

from webhook import cli_show


@click.group()
def task() -> None:
    """Units of requested work."""


@task.command()
@click.option("--project", required=True)
@click.option("--title", required=True)
@click.option("--body", default="", help="What is asked for.")
@click.option("--body-file", type=click.File(encoding="utf-8"), help="The same, from a file (- is stdin).")
@click.option("--deliverable", type=click.Choice(["code", "report"]), default="code", show_default=True)
@click.option("--priority", type=int, default=0, show_default=True, help="Higher goes first.")
@click.option("--max-attempts", type=click.IntRange(1, 20))
@click.option("--token-budget", type=click.IntRange(1), help="Tokens after which it is not offered again.")
@cli_show.hub_options
def create(
    *,
    project: str,
    title: str,
    body: str,
    body_file: IO[str] | None,
    deliverable: str,
    priority: int,
    max_attempts: int | None,
    token_budget: int | None,
    hub_url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Ask for work."""
    if body and body_file is not None:
        raise click.UsageError("give --body or --body-file, not both")
    wanted = {
        "project": project,
        "title": title,
        "body": body if body_file is None else body_file.read(),
        "deliverable": deliverable,
        "priority": priority,
        "max_attempts": max_attempts,
        "token_budget": token_budget,
    }
    cli_show.document(cli_show.client(hub_url, token).post("/v1/tasks", wanted), as_json=as_json)


@task.command("list")
@click.option("--project", help="Only of this project.")
@click.option("--state", help="Only in this state.")
@cli_show.hub_options
def listed(project: str | None, state: str | None, hub_url: str | None, token: str | None, as_json: bool) -> None:
    """Tasks, the oldest first."""
    rows = cli_show.client(hub_url, token).rows("/v1/tasks", project=project, state=state)
    columns = ("id", "state", "reason", "priority", "attempts", "attempts_left", "deliverable", "title")
    cli_show.table(rows, columns, as_json=as_json)


def _about(view: str, help_text: str) -> None:
    """One verb that shows one view of a task."""

    @task.command(view or "show", help=help_text)
    @click.argument("task")
    @cli_show.hub_options
    def verb(task: str, hub_url: str | None, token: str | None, as_json: bool) -> None:
        path = f"/v1/tasks/{task}/{view}" if view else f"/v1/tasks/{task}"
        cli_show.document(cli_show.client(hub_url, token).get(path), as_json=as_json)


_about("", "One task by its id or a unique prefix of it.")
_about("outcome", "Evidence, review, publication, acceptance and deployment, side by side.")
_about("why", "The decision that stands, its reason, and what would change it.")
_about("why-unclaimed", "Every condition that keeps the task from being leased, and what would change it.")


@task.command()
@click.argument("task")
@cli_show.hub_options
def timeline(task: str, hub_url: str | None, token: str | None, as_json: bool) -> None:
    """Everything that happened to the task, the oldest first."""
    rows = cli_show.client(hub_url, token).rows(f"/v1/tasks/{task}/timeline")
    cli_show.table(rows, ("at", "event", "from_state", "to_state", "reason", "actor"), as_json=as_json)
