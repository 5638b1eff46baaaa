"""How many examples tests try: few for contributors (``make test``), all of them in CI (``make test-all``)."""

from hypothesis import settings


def examples(full: int) -> int:
    """Of so many examples in the full profile of Hypothesis, those that this run tries."""
    return full if settings.get_current_profile_name() == "full" else max(4, full // 10)
