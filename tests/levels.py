"""How many examples tests try: few for contributors (``make test``), all of them in CI (``make test-all``)."""

from hypothesis import settings


def examples(full: int) -> int:
    """Number of examples in this run: all of them in the full profile, a tenth (at least 4) otherwise."""
    return full if settings.get_current_profile_name() == "full" else max(4, full // 10)
