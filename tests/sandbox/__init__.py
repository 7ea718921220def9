"""A whole GitHub on localhost: real git, REST, webhooks, rules; docs/sandbox.md says what is enforced and why."""
