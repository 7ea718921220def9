"""The memory: facts, leases, retries, proofs, history and migrations, in one database that is the truth.

This room asks the pipeline, writes, commits, and then rings the bell, which is the only other I/O it has. It
imports no web framework and no GitHub library, and starts no program; its tables are known to nobody outside.
Settings and logging live here too, since every program that holds the ledger needs them.
"""
