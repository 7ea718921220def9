"""The hands: git and GitHub.

This room observes the world, performs one decision at a time, and writes down what happened. It may use the
ledger and the pipeline; it serves nothing over HTTP and never imports the webhook room. Only here is a
program started, and only in one function of it is a canonical branch moved.
"""
