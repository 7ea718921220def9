"""The doors, knocked at over a real ledger."""
