"""The tests of mac hub, in folders that mirror the rooms: a real package, so that no other `tests` wins."""
