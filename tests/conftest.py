import os
import tempfile

# Compiled code comes from this tree, never from an earlier one; parallel workers share it.
os.environ.setdefault("NUMBA_CACHE_DIR", tempfile.mkdtemp(prefix="pril-numba-"))
os.environ.setdefault("MPLBACKEND", "agg")

from hypothesis import HealthCheck, settings

# The first example of a test may compile. CI judges a change, so it tries the same examples every
# time, as Hypothesis' own profile for it does; on a desk every run tries others.
settings.register_profile(
    "pril",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
# Without the compiler every row costs a millisecond.
settings.register_profile("interpreted", settings.get_profile("pril"), max_examples=15)
settings.load_profile("interpreted" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "pril")
