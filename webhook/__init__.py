"""The doors: GitHub's webhook, the `/v1` API, the operators' pages, health, metrics, and `mac` itself.

This room verifies and answers. It may use the ledger and the pipeline; it never runs git or another program,
never calls GitHub through the hands' library, and never imports the workers: what needs an effect is written
down and rung.
"""
