"""What people said in a project, as one label an item."""

from dubito.exchange.answers import Gathered, gather_answers
from dubito.studio.projects import StudioProject


def pull(project: StudioProject) -> Gathered:
    """The label that most people gave each item of ours, with their agreement; skipped and tied ones apart."""
    return gather_answers(project.survey().said)
