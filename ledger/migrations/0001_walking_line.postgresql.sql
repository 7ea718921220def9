-- The straight line of one change: projects, tasks, leases, evidence, publications, intents, proofs, history.
-- Every instant is whole milliseconds since the epoch, UTC. Flags are 0 or 1. Documents are canonical JSON.

CREATE TABLE workers (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL
);

CREATE TABLE tokens (
  id TEXT NOT NULL PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,
  scope TEXT NOT NULL CHECK (scope IN ('read', 'operator', 'admin', 'executor', 'batch')),
  worker_id TEXT REFERENCES workers (id),
  label TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT,
  CHECK ((scope IN ('executor', 'batch')) = (worker_id IS NOT NULL))
);

CREATE TABLE idempotency (
  actor TEXT NOT NULL,
  key TEXT NOT NULL,
  route TEXT NOT NULL,
  request_sha256 TEXT NOT NULL,
  status BIGINT NOT NULL,
  answer TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (actor, key)
);

CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE ticks (
  name TEXT NOT NULL PRIMARY KEY,
  at BIGINT NOT NULL
);

INSERT INTO ticks (name, at) VALUES ('reclaim', 0);

CREATE TABLE projects (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  repository TEXT NOT NULL,
  canonical_branch TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('registering', 'ready', 'refused')),
  paused BIGINT NOT NULL CHECK (paused IN (0, 1)),
  repository_id BIGINT,
  installation_id BIGINT,
  clone_url TEXT,
  default_branch TEXT,
  method TEXT,
  markers_admitted BIGINT CHECK (markers_admitted IN (0, 1)),
  permissions TEXT,
  contract TEXT,
  contract_digest TEXT,
  contract_blob TEXT,
  refusal TEXT,
  refusal_facts TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  settled_at BIGINT,
  CHECK ((state = 'refused') = (refusal IS NOT NULL)),
  CHECK (state <> 'ready' OR (repository_id IS NOT NULL AND installation_id IS NOT NULL AND clone_url IS NOT NULL))
);

CREATE INDEX projects_by_repository ON projects (repository_id) WHERE repository_id IS NOT NULL;
CREATE UNIQUE INDEX projects_one_per_branch ON projects (owner, repository, canonical_branch) WHERE state <> 'refused';

CREATE TABLE branches (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  name TEXT NOT NULL,
  generation BIGINT NOT NULL,
  tip TEXT,
  tip_at BIGINT,
  UNIQUE (project_id, name)
);

CREATE TABLE land_slots (
  branch_id TEXT NOT NULL PRIMARY KEY REFERENCES branches (id),
  token BIGINT NOT NULL,
  held BIGINT NOT NULL CHECK (held IN (0, 1)),
  host TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  pid BIGINT NOT NULL,
  started_at BIGINT NOT NULL,
  taken_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);

CREATE TABLE tasks (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  title TEXT NOT NULL,
  body TEXT NOT NULL,
  deliverable TEXT NOT NULL CHECK (deliverable IN ('code', 'report')),
  priority BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'claimed', 'reviewing', 'landing', 'completed', 'blocked', 'stopped', 'failed', 'cancelled')),
  reason TEXT,
  reason_facts TEXT NOT NULL,
  max_attempts BIGINT NOT NULL CHECK (max_attempts > 0),
  attempts BIGINT NOT NULL CHECK (attempts >= 0),
  credits BIGINT NOT NULL CHECK (credits >= 0),
  sent_back BIGINT NOT NULL CHECK (sent_back >= 0),
  held BIGINT NOT NULL CHECK (held IN (0, 1)),
  stop_requested_at BIGINT,
  directive TEXT,
  not_before BIGINT NOT NULL,
  last_worker_id TEXT REFERENCES workers (id),
  kept_for_worker_until BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  head_branch TEXT NOT NULL,
  pushed_head TEXT,
  pull_request BIGINT,
  pull_request_url TEXT,
  line_priority BIGINT,
  line_at BIGINT,
  created_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  CHECK (state <> 'blocked' OR reason IS NOT NULL)
);

CREATE INDEX tasks_open ON tasks (priority DESC, created_at, id) WHERE state = 'open';
CREATE INDEX tasks_by_age ON tasks (created_at, id);
CREATE INDEX tasks_of_project ON tasks (project_id, created_at, id);
CREATE UNIQUE INDEX tasks_one_pull_request ON tasks (project_id, pull_request) WHERE pull_request IS NOT NULL;

CREATE TABLE attempts (
  id TEXT NOT NULL PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  number BIGINT NOT NULL,
  worker_id TEXT NOT NULL REFERENCES workers (id),
  started_at BIGINT NOT NULL,
  ended_at BIGINT,
  ending TEXT,
  failure_class TEXT,
  sentence TEXT,
  UNIQUE (task_id, number)
);

CREATE TABLE leases (
  id TEXT NOT NULL PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  attempt_id TEXT NOT NULL UNIQUE REFERENCES attempts (id),
  worker_id TEXT NOT NULL REFERENCES workers (id),
  token BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  renewed_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  released_at BIGINT,
  UNIQUE (task_id, token)
);

CREATE UNIQUE INDEX leases_one_live ON leases (task_id) WHERE released_at IS NULL;
CREATE INDEX leases_live_by_expiry ON leases (expires_at) WHERE released_at IS NULL;

CREATE TABLE credits (
  id TEXT NOT NULL PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  attempt_id TEXT NOT NULL REFERENCES attempts (id),
  reason TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  UNIQUE (attempt_id, reason)
);

CREATE INDEX credits_of_task ON credits (task_id, reason);

CREATE TABLE bundles (
  id TEXT NOT NULL PRIMARY KEY,
  lease_id TEXT NOT NULL UNIQUE REFERENCES leases (id),
  sha256 TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  content BYTEA NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE evidence (
  id TEXT NOT NULL PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  attempt_id TEXT NOT NULL UNIQUE REFERENCES attempts (id),
  number BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('repository_change', 'operator_result')),
  digest TEXT NOT NULL,
  document TEXT NOT NULL,
  head TEXT,
  tree TEXT,
  verified_base TEXT,
  bundle_id TEXT UNIQUE REFERENCES bundles (id),
  created_at BIGINT NOT NULL,
  UNIQUE (task_id, number),
  CHECK (kind <> 'repository_change' OR (head IS NOT NULL AND tree IS NOT NULL AND verified_base IS NOT NULL))
);

CREATE TABLE publications (
  id TEXT NOT NULL PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  branch_id TEXT NOT NULL REFERENCES branches (id),
  task_id TEXT NOT NULL REFERENCES tasks (id),
  attempt_id TEXT NOT NULL UNIQUE REFERENCES attempts (id),
  evidence_id TEXT NOT NULL UNIQUE REFERENCES evidence (id),
  number BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'parked', 'closed')),
  closed_as TEXT,
  closed_at BIGINT,
  decision TEXT,
  reason TEXT,
  facts TEXT NOT NULL,
  sticky BIGINT NOT NULL CHECK (sticky IN (0, 1)),
  since BIGINT NOT NULL,
  deadline BIGINT,
  owner TEXT,
  next_look_at BIGINT,
  fresh BIGINT NOT NULL CHECK (fresh IN (0, 1)),
  looks BIGINT NOT NULL,
  look_holder TEXT,
  look_token BIGINT NOT NULL,
  look_expires_at BIGINT,
  head TEXT,
  checks_since BIGINT,
  checks_head TEXT,
  suspicion_reason TEXT,
  suspicion_fingerprint TEXT,
  suspicion_at BIGINT,
  refused_landings BIGINT NOT NULL,
  landing TEXT NOT NULL CHECK (landing IN ('none', 'proven', 'unproven', 'unattributed')),
  landing_facts TEXT NOT NULL,
  person_waved BIGINT NOT NULL CHECK (person_waved IN (0, 1)),
  in_line BIGINT NOT NULL CHECK (in_line IN (0, 1)),
  line_priority BIGINT,
  line_at BIGINT,
  kept_until BIGINT,
  front_since BIGINT,
  front_ms BIGINT NOT NULL,
  passed BIGINT NOT NULL,
  yielded BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  UNIQUE (task_id, number),
  CHECK ((state = 'closed') = (next_look_at IS NULL)),
  CHECK ((state = 'closed') = (closed_as IS NOT NULL)),
  CHECK (state <> 'parked' OR reason IS NOT NULL),
  CHECK (in_line = 0 OR (state <> 'closed' AND line_at IS NOT NULL AND line_priority IS NOT NULL)),
  CHECK ((look_holder IS NULL) = (look_expires_at IS NULL))
);

CREATE UNIQUE INDEX publications_one_live ON publications (task_id) WHERE state <> 'closed';
CREATE INDEX publications_due_on_branch ON publications (branch_id, next_look_at) WHERE next_look_at IS NOT NULL;
CREATE INDEX publications_due ON publications (state, next_look_at, fresh) WHERE next_look_at IS NOT NULL;
CREATE INDEX publications_line ON publications (branch_id, line_priority DESC, line_at) WHERE in_line = 1;
CREATE INDEX publications_looked_at ON publications (look_holder) WHERE look_holder IS NOT NULL;
CREATE INDEX publications_front ON publications (branch_id) WHERE front_since IS NOT NULL;
CREATE INDEX publications_kept ON publications (branch_id, kept_until) WHERE kept_until IS NOT NULL;

CREATE TABLE verdicts (
  id TEXT NOT NULL PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  publication_id TEXT NOT NULL REFERENCES publications (id),
  evidence_id TEXT NOT NULL REFERENCES evidence (id),
  number BIGINT NOT NULL,
  worker_id TEXT NOT NULL REFERENCES workers (id),
  result TEXT NOT NULL CHECK (result IN ('approved', 'rejected', 'environment')),
  contract_digest TEXT NOT NULL,
  digest TEXT NOT NULL,
  document TEXT NOT NULL,
  person_needed TEXT NOT NULL,
  verifier_green BIGINT NOT NULL CHECK (verifier_green IN (0, 1)),
  findings_digest TEXT NOT NULL,
  deterministic BIGINT NOT NULL CHECK (deterministic IN (0, 1)),
  created_at BIGINT NOT NULL,
  UNIQUE (evidence_id, number)
);

CREATE INDEX verdicts_of_task ON verdicts (task_id, findings_digest);

CREATE TABLE intents (
  id TEXT NOT NULL PRIMARY KEY,
  branch_id TEXT NOT NULL REFERENCES branches (id),
  task_id TEXT NOT NULL REFERENCES tasks (id),
  publication_id TEXT NOT NULL REFERENCES publications (id),
  evidence_id TEXT NOT NULL REFERENCES evidence (id),
  kind TEXT NOT NULL CHECK (kind IN ('land', 'update')),
  document TEXT NOT NULL,
  digest TEXT NOT NULL,
  slot_token BIGINT NOT NULL,
  committed_at BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'done', 'void')),
  closed_at BIGINT,
  why TEXT,
  CHECK ((state = 'open') = (closed_at IS NULL)),
  CHECK (state <> 'void' OR why IS NOT NULL)
);

CREATE UNIQUE INDEX intents_one_open ON intents (branch_id) WHERE state = 'open';
CREATE INDEX intents_of_publication ON intents (publication_id, committed_at);

CREATE TABLE observations (
  id TEXT NOT NULL PRIMARY KEY,
  intent_id TEXT NOT NULL REFERENCES intents (id),
  what TEXT NOT NULL,
  facts TEXT NOT NULL,
  at BIGINT NOT NULL
);

CREATE INDEX observations_of_intent ON observations (intent_id, at);

CREATE TABLE update_commits (
  intent_id TEXT NOT NULL PRIMARY KEY REFERENCES intents (id),
  publication_id TEXT NOT NULL REFERENCES publications (id),
  number BIGINT NOT NULL,
  previous_head TEXT NOT NULL,
  tip TEXT NOT NULL,
  tree TEXT NOT NULL,
  head TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  UNIQUE (publication_id, number)
);

CREATE TABLE proofs (
  id TEXT NOT NULL PRIMARY KEY,
  branch_id TEXT NOT NULL REFERENCES branches (id),
  sequence BIGINT NOT NULL CHECK (sequence > 0),
  previous TEXT,
  digest TEXT NOT NULL UNIQUE,
  envelope BYTEA NOT NULL,
  task_id TEXT NOT NULL UNIQUE REFERENCES tasks (id),
  publication_id TEXT NOT NULL UNIQUE REFERENCES publications (id),
  intent_id TEXT NOT NULL UNIQUE REFERENCES intents (id),
  created_at BIGINT NOT NULL,
  UNIQUE (branch_id, sequence),
  CHECK ((sequence = 1) = (previous IS NULL))
);

CREATE TABLE deliveries (
  guid TEXT NOT NULL PRIMARY KEY,
  event TEXT NOT NULL,
  action TEXT,
  body_sha256 TEXT NOT NULL,
  hint TEXT NOT NULL,
  received_at BIGINT NOT NULL
);

CREATE INDEX deliveries_by_age ON deliveries (received_at);

CREATE TABLE history (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at BIGINT NOT NULL,
  subject TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  task_id TEXT REFERENCES tasks (id),
  event TEXT NOT NULL,
  from_state TEXT,
  to_state TEXT,
  reason TEXT,
  facts TEXT NOT NULL,
  actor TEXT NOT NULL
);

CREATE INDEX history_of_task ON history (task_id, id);
CREATE INDEX history_of_subject ON history (subject, subject_id, id);
