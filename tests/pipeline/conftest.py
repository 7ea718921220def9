"""How properties are tried: fresh seeds on a desk, the same ones in CI, and nothing left behind on disk."""

from hypothesis import settings

# Built on the profile in force, which in CI is already the one that draws the same examples each time.
settings.register_profile("mind", database=None, deadline=None, print_blob=True)
settings.load_profile("mind")
