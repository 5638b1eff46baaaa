"""`Pool`: a pool that keeps distances between rounds of selection."""

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Literal

import numpy as np

from dubito.api import answer
from dubito.arguments import build_request, check_points
from dubito.core.constraints import check_groups, rows_of_groups
from dubito.core.problem import Groups, Known, Metric, Problem, Progress, Scaling, Selection
from dubito.covering_radius import CallerArrays
from dubito.engines.dispatch import choose_engine
from dubito.errors import InvalidArgument, InvalidData, american_keywords, keyword
from dubito.io.durable import load_with_checksum, save_with_checksum
from dubito.matrix import AnyArray, IntArray, Rows, len_of
from dubito.request.ids import Ids
from dubito.request.rows import Labeled, check_rows
from dubito.strategies import Strategy, configure_strategy
from dubito.strategies.auto import Origin

SCHEMA = 1
FINGERPRINT_ROWS = 64
ROW_BYTES, GROUP_BYTES, SLACK_BYTES = 300, 1000, 1 << 24
"""Maximum unpacked size of a saved pool, per row, per row for names of groups, and in addition; larger files are
rejected."""


class Pool:
    """A pool for repeated rounds of labeling and selection.

    The features are checked once. Distances to labeled points and picks are cached: the next round computes only
    those to new points, even though doubt has changed. The cache takes 24 bytes per row. Coverage on the CPU also keeps
    the points as it compares them (up to twice the features in float32) and up to 512 MB of near pairs, which the next
    round does not search again; with ``memory_limit`` it keeps neither.

    Parameters
    ----------
    features : array (n, d)
        As in `dubito.select`; it must not change while the pool is in use.
    ids : sequence (n,), optional
        Unique ids of the rows; by default row numbers.
    metric : {"euclidean", "cosine"}
        As in `dubito.select`.
    standardize : bool, optional
        As in `dubito.select`.
    groups : array (n,), optional
        As in `dubito.select`: whole groups are picked.

    Examples
    --------
    >>> import numpy as np, dubito
    >>> pool = dubito.Pool(np.array([[0.0], [1.0], [5.0], [9.0]]))
    >>> pool.label([0])
    >>> first = pool.select(1, doubt=[0.0, 0.5, 0.5, 0.5], strategy="doubt-coreset")
    >>> pool.label(first)
    >>> pool.select(1, doubt=[0.0, 0.5, 0.5, 0.0], strategy="doubt-coreset").indices.tolist()
    [2]
    """

    @american_keywords
    def __init__(
        self,
        features: object,
        *,
        ids: Sequence[object] | AnyArray | None = None,
        metric: Metric = "euclidean",
        standardize: bool | None = None,
        groups: object = None,
    ):
        self._points = check_points(features, None, metric, ids, standardize, groups)
        self._order = np.empty(0, dtype=np.int64)
        self.ids = None if self._points.row_ids.ids is None else self._points.row_ids.ids.values
        self._known = Known(np.full(len(self), np.inf), np.zeros(len(self), np.int32), self._order)
        self._before = self._known

    def __len__(self) -> int:
        return len_of(self._points.pool)

    @property
    def labeled(self) -> IntArray:
        """Labeled rows, ascending."""
        return np.sort(self._order)

    def __repr__(self) -> str:
        n, d = self._points.pool.shape
        standardized = ", standardized" if self._points.is_standardized else ""
        groups = "" if self._points.groups is None else f", {len(self._points.groups.names)} groups"
        return f"Pool({n} x {d}{groups}, {len(self._order)} labeled, metric={self._points.metric!r}{standardized})"

    def label(self, which: object = None, *, rows: object = None, ids: object = None, groups: object = None) -> None:
        """Mark rows as labeled.

        ``which`` is a `Selection`; or ids, if the pool has text ids; or row numbers or a boolean mask (n,). Pass
        ``rows`` or ``ids`` to be explicit, which is required if ids are numbers; ``groups`` are the names of groups all
        of whose rows are labeled. Labeling a row twice has no effect.

        The distances computed in the last round are kept if all its picks are now labeled; otherwise those from before
        that round. This takes no time: missing distances are computed by the next round, or by `prepare`.
        """
        if sum(value is not None for value in (which, rows, ids, groups)) != 1:
            takes = f"label takes one of: a Selection or list, {keyword('rows')}, {keyword('ids')}, {keyword('groups')}"
            raise InvalidArgument(takes, hint="pass exactly one of them.")
        if groups is not None:
            rows = rows_of_groups(groups, self._points.groups)
        rows = np.setdiff1d(self._rows_of(which, rows, ids), self._order)
        added = self._known.added
        if len(added) and not np.isin(added, rows).all():
            self._known = self._before
            added = added[:0]
        self._order = np.concatenate([self._order, added, np.setdiff1d(rows, added)])
        self._known.added = self._order[:0]
        self._before = self._known

    def prepare(self) -> None:
        """Update the distance of every row to the labeled points.

        The distances do not depend on the model, so this can run while people label or the model trains; the next
        `select` is then faster. Θ(n·new·d) time at worst, where new is the number of points labeled since.
        """
        known, points = self._before, self._points
        is_stale = known.seen < len(self._order)
        is_stale[self._order] = False
        references, rows = Rows(points.pool, self._order), np.flatnonzero(is_stale)
        if len(rows):
            problem = Problem(
                points.pool, references, rows, 1, metric=points.metric, largest=points.largest, known=known
            )
            choose_engine("auto", problem).catch_up(problem)

    def _rows_of(self, which: object, rows: object, ids: object) -> IntArray:
        if isinstance(which, Selection):
            rows = which.indices
            if which.n_pool == len(self):
                # Row numbers of this pool. check_rows might read 0 and 1 as a mask in a pool of one or two rows.
                return rows
        elif which is not None and self.ids is not None and self.ids.dtype.kind in "iuf":
            hint = "pass label(ids=...) or label(rows=...)."
            raise InvalidArgument("this pool's ids are numbers, like row numbers", hint=hint)
        elif which is not None and self.ids is not None and np.asarray(which).dtype.kind not in "iub":
            ids = which
        elif which is not None:
            rows = which
        return check_rows("rows", rows, len(self)) if ids is None else self._rows_of_ids(ids)

    def _rows_of_ids(self, ids: object) -> IntArray:
        known = self._points.row_ids.ids
        if known is None:
            hint = "pass label(rows=...), or create it with Pool(..., ids=...)."
            raise InvalidArgument("this pool has no ids", hint=hint)
        wanted = Ids("ids", np.asarray(ids).ravel(), argument="ids")
        for row, key in enumerate(wanted.keys):
            if key not in known.row_of_key:
                problem = f"holds {wanted.shown([row])}, which is not an id of this pool"
                raise InvalidArgument(problem, argument="ids", hint="pass ids that the pool was created with.")
        return np.array([known.row_of_key[key] for key in wanted.keys], dtype=np.int64)

    def select(
        self,
        budget: int,
        *,
        probabilities: object = None,
        logits: object = None,
        doubt: object = None,
        temperature: float | Literal["fit"] | None = None,
        labels: object = None,
        model: object = "linear",
        no_label: object = None,
        strategy: str | Strategy = "auto",
        features: Origin | None = None,
        strength: float | None = None,
        beam_width: int | None = None,
        scaling: Scaling | None = None,
        candidates: object = None,
        costs: object = None,
        spend: float | None = None,
        quotas: object = None,
        classes: object = None,
        engine: str = "auto",
        memory_limit: int | str | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Selection:
        """Select the next batch as `dubito.select` would; picks count as labeled only after a call of `label`.

        ``labels`` are those of the rows in `labeled`, in that order, or of all rows, or by id; a model is fitted on
        them as in `dubito.select`.
        """
        started = time.perf_counter()
        chosen = configure_strategy(
            strategy, engine, strength=strength, beam_width=beam_width, scaling=scaling, features=features
        )
        labeled = Labeled(Rows(self._points.pool, self._order), self._order, 0.0)
        before = self._before
        self._known = Known(before.squared.copy(), before.seen.copy(), self._order[:0], before.kept)
        request = build_request(
            self._points._replace(labeled=labeled),
            chosen,
            budget,
            labeled=self.labeled,
            probabilities=probabilities,
            logits=logits,
            doubt=doubt,
            temperature=temperature,
            labels=labels,
            model=model,
            no_label=no_label,
            candidates=candidates,
            costs=costs,
            spend=spend,
            quotas=quotas,
            classes=classes,
            engine=engine,
            memory_limit=memory_limit,
            seed=seed,
            progress=progress,
            known=self._known,
        )
        try:
            return answer(
                request,
                chosen,
                self._points.row_ids,
                started,
                CallerArrays(self._points.pool, None, is_checked=True),
            )
        except BaseException:
            self._known = self._before
            raise

    def save(self, path: str) -> None:
        """Write the labeled rows, the groups and the cached distances to an ``.npz`` file, atomically.

        The features are not written. An existing file is replaced.
        """
        arrays: dict[str, AnyArray] = {
            "schema": np.array(SCHEMA, dtype=np.int64),
            "fingerprint": np.array(self._fingerprint()),
            "order": self._order,
            "squared": self._before.squared,
            "seen": self._before.seen,
        }
        if (groups := self._points.groups) is not None:
            names = json.dumps(groups.names.tolist(), ensure_ascii=False).encode(errors="surrogatepass")
            if len(names) > (most := GROUP_BYTES * len(self)):
                problem = f"has names of {len(names):,} bytes together, and a pool of {len(self)} rows saves {most:,}"
                raise InvalidArgument(problem, argument="groups", hint="pass numbers or shorter names.")
            arrays |= {"groups": groups.numbers, "names": np.frombuffer(names, dtype=np.uint8)}
        save_with_checksum(path, arrays)

    @classmethod
    @american_keywords
    def load(
        cls,
        path: str,
        features: object,
        *,
        ids: Sequence[object] | AnyArray | None = None,
        metric: Metric = "euclidean",
        standardize: bool | None = None,
        groups: object = None,
    ) -> "Pool":
        """Load a saved pool, given the same features; raises InvalidData for other features or a damaged file.

        Its groups are those that were saved; ``groups`` may repeat them, and is needed only if the pool had none.
        """
        pool = cls(features, ids=ids, metric=metric, standardize=standardize, groups=groups)
        saved = _read(path, len(pool))
        if str(saved["fingerprint"]) != pool._fingerprint():
            problem = f"{path} was saved with other features, another metric or on another scale"
            raise InvalidData(problem, hint="pass the same as when it was saved.")
        name = _first_invalid(saved["order"], saved["squared"], saved["seen"], len(pool))
        if name is not None:  # Engines do not check the cached distances.
            problem = f"{path} is damaged: its {name!r} cannot have come from a pool of {len(pool)} rows"
            raise InvalidData(problem, hint="create the pool again, and label the labeled rows again.")
        if "groups" in saved:
            pool._points = pool._points._replace(groups=_saved_groups(path, saved, len(pool), pool._points.groups))
        pool._order = saved["order"]
        pool._known = pool._before = Known(saved["squared"], saved["seen"], pool._order[:0])
        return pool

    def _fingerprint(self) -> str:
        """A hash of shape, metric and some rows of the features."""
        matrix, metric = self._points.pool, self._points.metric
        rows = np.unique(np.linspace(0, len(self) - 1, FINGERPRINT_ROWS).astype(np.int64))
        sample = np.ascontiguousarray(matrix[rows], dtype=np.float64)
        return hashlib.sha256(f"{matrix.shape} {metric}".encode() + sample.tobytes()).hexdigest()


def _read(path: str, n_pool: int) -> dict[str, AnyArray]:
    def check_size(n_bytes: int) -> None:
        most = (ROW_BYTES + GROUP_BYTES) * n_pool + SLACK_BYTES
        if n_bytes > most:
            raise InvalidData(
                f"{path} unpacks to {n_bytes:,} bytes, and a pool of {n_pool} rows saves at most {most:,}."
            )

    saved = load_with_checksum(path, check_size=check_size)
    expected = {"schema", "fingerprint", "order", "squared", "seen"}
    if set(saved) - {"groups", "names"} != expected or saved["schema"].tolist() != SCHEMA:
        problem = f"{path} holds no pool saved by this version of dubito"
        raise InvalidData(problem, hint="pass a path that Pool.save was given.")
    return saved


def _saved_groups(path: str, saved: dict[str, AnyArray], n_pool: int, given: Groups | None) -> Groups:
    """The groups in a file; raises InvalidData if they are not those given."""
    try:
        names = np.array(json.loads(saved["names"].tobytes()))
        groups = check_groups(names[saved["groups"]], n_pool)
    except (IndexError, KeyError, ValueError):
        raise InvalidData(f"{path} is damaged: its 'groups' cannot be read", hint="create the pool again.") from None
    if given is None or (
        np.array_equal(given.numbers, groups.numbers) and given.names.tolist() == groups.names.tolist()
    ):
        return groups
    raise InvalidData(f"{path} was saved with other groups", hint=f"leave {keyword('groups')} out to use those.")


def _first_invalid(order: AnyArray, squared: AnyArray, seen: AnyArray, n_pool: int) -> str | None:
    """The name of the first array with a wrong type, shape or range, or None."""
    if order.dtype != np.int64 or order.ndim != 1 or len(np.unique(order)) < len(order):
        return "order"
    if ((order < 0) | (order >= n_pool)).any():
        return "order"
    if squared.dtype != np.float64 or squared.shape != (n_pool,) or not (squared >= 0.0).all():
        return "squared"
    if seen.dtype != np.int32 or seen.shape != (n_pool,) or ((seen < 0) | (seen > len(order))).any():
        return "seen"
    return None if np.isfinite(squared[seen > 0]).all() else "squared"
