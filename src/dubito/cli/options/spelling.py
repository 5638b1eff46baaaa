"""Options that may stand without a value."""

from collections.abc import Sequence

WITHOUT_A_VALUE = {"--standardise": "yes", "--standardize": "yes"}
"""Options that may stand alone, and what they say then."""


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """The command line with a value for every option that may stand alone.

    Examples
    --------
    >>> spelled_out(["select", "--standardise", "-b", "5"]), spelled_out(["--standardise", "no"])
    (['select', '--standardise', 'yes', '-b', '5'], ['--standardise', 'no'])
    """
    spelled: list[str] = []
    for place, each in enumerate(arguments):
        after = arguments[place + 1] if place + 1 < len(arguments) else "-"
        spelled += [each, WITHOUT_A_VALUE[each]] if each in WITHOUT_A_VALUE and after.startswith("-") else [each]
    return spelled
