"""The map: coordinates in the plane for every item.

With openTSNE, the map preserves neighborhoods: t-SNE places a sample of the items (landmarks), and every other item is
placed between its nearest landmarks. Without it, the map shows the first two principal components.
"""

from importlib.util import find_spec

import numpy as np

from dubito.matrix import AnyArray, FloatArray, Matrix, blocks, len_of, rows_per_read
from dubito.request.scaling import measure_scale, standardized

LAYOUT_SAMPLE = 20_000
"""Maximum number of rows from which the principal axes are computed."""
LANDMARKS = 2_000
"""Number of items that t-SNE places, which bounds its time: about 12 s of one core."""
FEWEST = 200
"""Pools with fewer rows are shown by their principal components."""
N_AXES = 50
"""Number of principal components from which t-SNE starts."""
N_NEAREST = 5
"""Number of landmarks between which another item is placed."""
CENTRAL = 0.99
"""Share of the rows, the nearest to the median, that determine the axes, so that outliers do not."""


def compute_layout(features: Matrix, *, standardize: bool = False, neighbors: bool | None = None) -> FloatArray:
    """(n, 2) coordinates of the rows in the plane.

    Parameters
    ----------
    features : array-like of shape (n, d)
        The features.
    standardize : bool
        Whether to standardize the features, as for columns of a table with different units, but not for embeddings.
    neighbors : bool, optional
        Whether to preserve neighborhoods by openTSNE; by default if it is installed.

    Examples
    --------
    >>> compute_layout(np.array([[0.0, 0.0], [1.0, 0.1], [2.0, -0.1]])).shape
    (3, 2)
    """
    scaled = standardized(features, measure_scale(features)) if standardize else features
    uses_neighbors = find_spec("openTSNE") is not None if neighbors is None else neighbors
    if not uses_neighbors or len_of(features) < FEWEST:
        return project_on_axes(scaled, 2)
    return place_by_neighbors(project_on_axes(scaled, min(N_AXES, features.shape[1])))


def project_on_axes(features: Matrix, n_axes: int) -> FloatArray:
    """(n, k) coordinates on the first principal axes; further coordinates are 0 if there are fewer axes."""
    n_rows = len_of(features)
    sample = np.asarray(features[spread_rows(n_rows, LAYOUT_SAMPLE)], dtype=np.float64)
    distances = np.square(sample - np.median(sample, axis=0)).sum(axis=1)
    sample = sample[distances <= np.quantile(distances, CENTRAL)]
    mean = sample.mean(axis=0)
    axes = _principal_axes(sample - mean, n_axes)
    coordinates = np.zeros((n_rows, n_axes))
    for span in blocks(n_rows, rows_per_read(features)):
        coordinates[span, : axes.shape[1]] = (np.asarray(features[span], dtype=np.float64) - mean) @ axes
    return coordinates


def _principal_axes(centered: FloatArray, n_axes: int) -> FloatArray:
    """(d, k) the first principal axes; fewer if there are no more."""
    if len(centered) <= centered.shape[1]:
        return np.asarray(np.linalg.svd(centered, full_matrices=False)[2][:n_axes].T)
    return np.asarray(np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :n_axes])


def place_by_neighbors(points: FloatArray) -> FloatArray:
    """(n, 2) coordinates that preserve neighborhoods, from (n, k) principal coordinates; deterministic."""
    from openTSNE import TSNE

    rows = spread_rows(len(points), LANDMARKS)
    landmarks = points[rows]
    start = landmarks[:, :2] / max(float(landmarks[:, 0].std()), 1e-12) * 1e-4
    perplexity = min(30.0, (len(rows) - 1) / 3.0)
    placed = np.asarray(TSNE(perplexity=perplexity, initialization=start, n_jobs=1, random_state=0).fit(landmarks))
    layout = np.empty((len(points), 2))
    sizes = np.square(landmarks).sum(axis=1)
    for span in blocks(len(points), 1024):
        squared = sizes - 2.0 * (points[span] @ landmarks.T)
        nearest = np.argpartition(squared, N_NEAREST, axis=1)[:, :N_NEAREST]
        # The median, because the nearest landmarks may lie on several sides of the map.
        layout[span] = np.median(placed[nearest], axis=1)
    layout[rows] = placed
    return layout


def spread_rows(n_rows: int, most: int) -> AnyArray:
    """At most `most` row numbers, evenly spaced.

    Examples
    --------
    >>> spread_rows(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64))
