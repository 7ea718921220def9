-- What a task has used up: tokens, by its executors' word, against a budget where one is set; and the stable code of a
-- failed attempt, by which the same failure of two workers is known.

ALTER TABLE tasks ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0 CHECK (tokens >= 0);
ALTER TABLE tasks ADD COLUMN token_budget INTEGER CHECK (token_budget > 0);
ALTER TABLE attempts ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0 CHECK (tokens >= 0);
ALTER TABLE attempts ADD COLUMN failure_code TEXT;
