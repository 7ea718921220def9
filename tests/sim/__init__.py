"""A simulation that owns time: the real ledger, the real mind and the real hands, among crashes and a hostile world."""
