-- What operators said of the evidence that they looked at. A later word on the same evidence stands; no word is erased.

CREATE TABLE acceptances (
  id TEXT NOT NULL PRIMARY KEY,
  task_id TEXT NOT NULL REFERENCES tasks (id),
  attempt_id TEXT NOT NULL REFERENCES attempts (id),
  evidence_id TEXT NOT NULL REFERENCES evidence (id),
  number BIGINT NOT NULL CHECK (number > 0),
  decision TEXT NOT NULL CHECK (decision IN ('accepted', 'rejected')),
  why TEXT NOT NULL CHECK (why <> ''),
  actor TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  UNIQUE (task_id, number)
);
