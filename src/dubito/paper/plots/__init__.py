"""Pictures of the paper's figures as measured here: a finding of `dubito.paper` in, a Figure out."""

from functools import singledispatch

from matplotlib.figure import Figure

from dubito.errors import InvalidArgument
from dubito.paper.appendix import Acquisitions, Negative, Toy
from dubito.paper.beams import Beams
from dubito.paper.beta import Beta
from dubito.paper.concentration import Concentration
from dubito.paper.discussion import Discussion
from dubito.paper.mixture import Heatmap, MixtureFit, Tail
from dubito.paper.networks import Ablation, Epochs, MainExperiments
from dubito.paper.plots.appendix import acquisitions_figure, negative_figure, toy_figure
from dubito.paper.plots.concentration import concentration_figure
from dubito.paper.plots.covers import radii_figure
from dubito.paper.plots.mixture import heatmap_figure, mixture_figure, tail_figure
from dubito.paper.plots.networks import ablation_figure, epochs_figure, main_figure
from dubito.paper.plots.squares import beams_figure, quadrants_figure
from dubito.paper.plots.statements import beta_figure, discussion_figure, timing_figure
from dubito.paper.quadrants import Quadrants
from dubito.paper.radii import Radii
from dubito.paper.timing import Timing

__all__ = ["paper_figure"]


@singledispatch
def paper_figure(finding: object) -> Figure:
    """The picture of a finding; its headline says what was measured, whichever way it went.

    Examples
    --------
    >>> from dubito.paper import exhibits
    >>> paper_figure(exhibits()["figure-7"].build().measure(0)).texts[0].get_text()
    'surer points have the higher bound on β, and keep it farther out'
    """
    hint = "pass what Exhibit.build().measure() gives."
    raise InvalidArgument("has no picture", argument="finding", value=finding, hint=hint)


paper_figure.register(Concentration, concentration_figure)
paper_figure.register(Radii, radii_figure)
paper_figure.register(Quadrants, quadrants_figure)
paper_figure.register(Beams, beams_figure)
paper_figure.register(Beta, beta_figure)
paper_figure.register(MixtureFit, mixture_figure)
paper_figure.register(Heatmap, heatmap_figure)
paper_figure.register(Tail, tail_figure)
paper_figure.register(Toy, toy_figure)
paper_figure.register(Acquisitions, acquisitions_figure)
paper_figure.register(Negative, negative_figure)
paper_figure.register(Timing, timing_figure)
paper_figure.register(Discussion, discussion_figure)
paper_figure.register(Ablation, ablation_figure)
paper_figure.register(MainExperiments, main_figure)
paper_figure.register(Epochs, epochs_figure)
