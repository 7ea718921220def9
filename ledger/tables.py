"""The tables as the statements of this room see them; the migrations make them.

Columns, keys and references stand here; indexes, checks and uniqueness stand in the migrations only, where the database
enforces them. A test holds the two descriptions together. No other room may import this module.
"""

from sqlalchemy import MetaData, Table

from ledger.columns import content, document, flag, text, whole

metadata = MetaData()

workers = Table(
    "workers",
    metadata,
    text("id", key=True),
    text("name"),
    whole("created_at"),
    whole("seen_at"),
)

tokens = Table(
    "tokens",
    metadata,
    text("id", key=True),
    text("sha256"),
    text("scope"),
    text("worker_id", null=True, of="workers.id"),
    text("label"),
    whole("created_at"),
    whole("revoked_at", null=True),
)

idempotency = Table(
    "idempotency",
    metadata,
    text("actor", key=True),
    text("key", key=True),
    text("route"),
    text("request_sha256"),
    whole("status"),
    text("answer"),
    whole("created_at"),
)

ticks = Table(
    "ticks",
    metadata,
    text("name", key=True),
    whole("at"),
)

projects = Table(
    "projects",
    metadata,
    text("id", key=True),
    text("name"),
    text("owner"),
    text("repository"),
    text("canonical_branch"),
    text("state"),
    flag("paused"),
    whole("repository_id", null=True),
    whole("installation_id", null=True),
    text("clone_url", null=True),
    text("default_branch", null=True),
    text("method", null=True),
    flag("markers_admitted", null=True),
    document("permissions", null=True),
    text("contract", null=True),
    text("contract_digest", null=True),
    text("contract_blob", null=True),
    text("refusal", null=True),
    document("refusal_facts"),
    whole("created_at"),
    whole("settled_at", null=True),
)

branches = Table(
    "branches",
    metadata,
    text("id", key=True),
    text("project_id", of="projects.id"),
    text("name"),
    whole("generation"),
    text("tip", null=True),
    whole("tip_at", null=True),
)

land_slots = Table(
    "land_slots",
    metadata,
    text("branch_id", key=True, of="branches.id"),
    whole("token"),
    flag("held"),
    text("host"),
    text("boot_id"),
    whole("pid"),
    whole("started_at"),
    whole("taken_at"),
    whole("expires_at"),
)

tasks = Table(
    "tasks",
    metadata,
    text("id", key=True),
    text("project_id", of="projects.id"),
    text("title"),
    text("body"),
    text("deliverable"),
    whole("priority"),
    text("state"),
    text("reason", null=True),
    document("reason_facts"),
    whole("max_attempts"),
    whole("attempts"),
    whole("credits"),
    whole("sent_back"),
    flag("held"),
    whole("stop_requested_at", null=True),
    document("directive", null=True),
    whole("not_before"),
    text("last_worker_id", null=True, of="workers.id"),
    whole("kept_for_worker_until"),
    whole("fence"),
    text("head_branch"),
    text("pushed_head", null=True),
    whole("pull_request", null=True),
    text("pull_request_url", null=True),
    whole("line_priority", null=True),
    whole("line_at", null=True),
    whole("created_at"),
    whole("changed_at"),
    text("created_by"),
    whole("tokens"),
    whole("token_budget", null=True),
)

attempts = Table(
    "attempts",
    metadata,
    text("id", key=True),
    text("task_id", of="tasks.id"),
    whole("number"),
    text("worker_id", of="workers.id"),
    whole("started_at"),
    whole("ended_at", null=True),
    text("ending", null=True),
    text("failure_class", null=True),
    text("sentence", null=True),
    whole("tokens"),
    text("failure_code", null=True),
)

leases = Table(
    "leases",
    metadata,
    text("id", key=True),
    text("task_id", of="tasks.id"),
    text("attempt_id", of="attempts.id"),
    text("worker_id", of="workers.id"),
    whole("token"),
    whole("created_at"),
    whole("renewed_at"),
    whole("expires_at"),
    whole("released_at", null=True),
)

credited = Table(
    "credits",
    metadata,
    text("id", key=True),
    text("task_id", of="tasks.id"),
    text("attempt_id", of="attempts.id"),
    text("reason"),
    whole("created_at"),
)

bundles = Table(
    "bundles",
    metadata,
    text("id", key=True),
    text("lease_id", of="leases.id"),
    text("sha256"),
    whole("size_bytes"),
    content("content"),
    whole("created_at"),
)

evidence = Table(
    "evidence",
    metadata,
    text("id", key=True),
    text("task_id", of="tasks.id"),
    text("attempt_id", of="attempts.id"),
    whole("number"),
    text("kind"),
    text("digest"),
    document("document"),
    text("head", null=True),
    text("tree", null=True),
    text("verified_base", null=True),
    text("bundle_id", null=True, of="bundles.id"),
    whole("created_at"),
)

publications = Table(
    "publications",
    metadata,
    text("id", key=True),
    text("project_id", of="projects.id"),
    text("branch_id", of="branches.id"),
    text("task_id", of="tasks.id"),
    text("attempt_id", of="attempts.id"),
    text("evidence_id", of="evidence.id"),
    whole("number"),
    text("state"),
    text("closed_as", null=True),
    whole("closed_at", null=True),
    text("decision", null=True),
    text("reason", null=True),
    document("facts"),
    flag("sticky"),
    whole("since"),
    whole("deadline", null=True),
    text("owner", null=True),
    whole("next_look_at", null=True),
    flag("fresh"),
    whole("looks"),
    text("look_holder", null=True),
    whole("look_token"),
    whole("look_expires_at", null=True),
    text("head", null=True),
    whole("checks_since", null=True),
    text("checks_head", null=True),
    text("suspicion_reason", null=True),
    text("suspicion_fingerprint", null=True),
    whole("suspicion_at", null=True),
    whole("refused_landings"),
    text("landing"),
    document("landing_facts"),
    flag("person_waved"),
    flag("in_line"),
    whole("line_priority", null=True),
    whole("line_at", null=True),
    whole("kept_until", null=True),
    whole("front_since", null=True),
    whole("front_ms"),
    whole("passed"),
    whole("yielded"),
    whole("created_at"),
)

verdicts = Table(
    "verdicts",
    metadata,
    text("id", key=True),
    text("task_id", of="tasks.id"),
    text("publication_id", of="publications.id"),
    text("evidence_id", of="evidence.id"),
    whole("number"),
    text("worker_id", of="workers.id"),
    text("result"),
    text("contract_digest"),
    text("digest"),
    document("document"),
    document("person_needed"),
    flag("verifier_green"),
    text("findings_digest"),
    flag("deterministic"),
    whole("created_at"),
)

acceptances = Table(
    "acceptances",
    metadata,
    text("id", key=True),
    text("task_id", of="tasks.id"),
    text("attempt_id", of="attempts.id"),
    text("evidence_id", of="evidence.id"),
    whole("number"),
    text("decision"),
    text("why"),
    text("actor"),
    whole("created_at"),
)

intents = Table(
    "intents",
    metadata,
    text("id", key=True),
    text("branch_id", of="branches.id"),
    text("task_id", of="tasks.id"),
    text("publication_id", of="publications.id"),
    text("evidence_id", of="evidence.id"),
    text("kind"),
    document("document"),
    text("digest"),
    whole("slot_token"),
    whole("committed_at"),
    text("state"),
    whole("closed_at", null=True),
    text("why", null=True),
)

observations = Table(
    "observations",
    metadata,
    text("id", key=True),
    text("intent_id", of="intents.id"),
    text("what"),
    document("facts"),
    whole("at"),
)

update_commits = Table(
    "update_commits",
    metadata,
    text("intent_id", key=True, of="intents.id"),
    text("publication_id", of="publications.id"),
    whole("number"),
    text("previous_head"),
    text("tip"),
    text("tree"),
    text("head"),
    whole("created_at"),
)

proofs = Table(
    "proofs",
    metadata,
    text("id", key=True),
    text("branch_id", of="branches.id"),
    whole("sequence"),
    text("previous", null=True),
    text("digest"),
    content("envelope"),
    text("task_id", of="tasks.id"),
    text("publication_id", of="publications.id"),
    text("intent_id", of="intents.id"),
    whole("created_at"),
)

deliveries = Table(
    "deliveries",
    metadata,
    text("guid", key=True),
    text("event"),
    text("action", null=True),
    text("body_sha256"),
    document("hint"),
    whole("received_at"),
)

history = Table(
    "history",
    metadata,
    whole("id", key=True),
    whole("at"),
    text("subject"),
    text("subject_id"),
    text("task_id", null=True, of="tasks.id"),
    text("event"),
    text("from_state", null=True),
    text("to_state", null=True),
    text("reason", null=True),
    document("facts"),
    text("actor"),
)
