"""The JSON responses for the page: items, project, map, accuracy curve, doubted labels and annotators."""

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from dubito.errors import MissingFile
from dubito.labeling.listing import EXCERPT
from dubito.labeling.service import GuessedItems, LabelingService
from dubito.labeling.state import State
from dubito.labeling.store import Pick, RoundRecord
from dubito.matrix import AnyArray, IntArray
from dubito.models.held_out import Share


class Agreement(NamedTuple):
    """Agreement between annotators, over items labeled by two or more."""

    items: int
    agree: float | None
    """Share of pairs of answers that are equal."""
    kappa: float | None
    """Cohen's kappa if the same two annotators labeled all of these items, otherwise Fleiss' kappa."""


def agreement(answers: Sequence[Sequence[tuple[str, str]]]) -> Agreement:
    """Compute the agreement from the (annotator, label) pairs of each item.

    Examples
    --------
    >>> both = [[("ann", "a"), ("bob", "a")], [("ann", "a"), ("bob", "b")], [("ann", "b"), ("bob", "b")]]
    >>> found = agreement([*both, [("ann", "b"), ("bob", "b")]])
    >>> found.items, found.agree, round(found.kappa, 3)
    (4, 0.75, 0.5)
    """
    shared = [item for item in answers if len(item) > 1]
    if not shared:
        return Agreement(0, None, None)
    pairs, same = 0, 0
    for item in shared:
        counts = Counter(label for _, label in item)
        pairs += len(item) * (len(item) - 1)
        same += sum(n * (n - 1) for n in counts.values())
    people = {frozenset(who for who, _ in item) for item in shared}
    is_pair = len(people) == 1 and len(next(iter(people))) == 2
    return Agreement(len(shared), same / pairs, cohen(shared) if is_pair else fleiss(shared))


def cohen(items: Sequence[Sequence[tuple[str, str]]]) -> float | None:
    """Cohen's kappa of two annotators; None if both used only one and the same class."""
    first, second = sorted({who for item in items for who, _ in item})
    answers = [dict(item) for item in items]
    observed = sum(each[first] == each[second] for each in answers) / len(answers)
    counts, other_counts = (Counter(each[who] for each in answers) for who in (first, second))
    expected = sum(counts[label] * other_counts[label] for label in counts) / len(answers) ** 2
    return _kappa(observed, expected)


def fleiss(items: Sequence[Sequence[tuple[str, str]]]) -> float | None:
    """Fleiss' kappa; items may have different numbers of answers."""
    totals: Counter[str] = Counter()
    agree = 0.0
    for item in items:
        counts = Counter(label for _, label in item)
        totals += counts
        agree += sum(n * (n - 1) for n in counts.values()) / (len(item) * (len(item) - 1))
    expected = sum((n / totals.total()) ** 2 for n in totals.values())
    return _kappa(agree / len(items), expected)


def _kappa(observed: float, expected: float) -> float | None:
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)


Facts = dict[str, Any]
KEYS = "1 to 9 label the first nine classes, letters the others; Space skips, Backspace undoes."


def item_facts(state: State, item: int, pick: Pick | None = None) -> Facts:
    contents = state.contents
    facts: Facts = {"row": item, "id": contents.ids[item], "kind": contents.kind}
    if contents.kind == "pictures":
        facts["picture"] = f"/api/items/{item}/picture"
    if contents.kind == "texts":
        facts["text"] = contents.text(item)
    if contents.columns:
        facts["columns"] = contents.cells(item)
    if item in state.contents.copies:
        n_copies = len(state.contents.copies[item]) - 1
        facts |= {"copies": n_copies, "copy_of": state.label_table.shared.get(item)}
    if pick is not None:
        facts |= {"round": pick.round, "rank": pick.rank, "why": pick.why}
    return facts


def one_item(service: LabelingService, item: int) -> Facts:
    """An item with its current label."""
    state = service.state
    with state.lock:
        service.check_item(item)
        return {**item_facts(state, item, state.queue.pick_of(item)), **_answer_facts(state, item)}


def _answer_facts(state: State, item: int) -> Facts:
    table = state.label_table
    return {
        "label": table.labels.get(item),
        "by": table.last_labeler(item),
        "skipped": item in table.skipped,
        "answers": {who: event.label for who, event in table.current_answers(item).items()},
    }


def list_facts(service: LabelingService, found: IntArray, offset: int, count: int) -> Facts:
    """A page of the found items, with their contents, labels, answers and predictions."""
    state = service.state
    with state.lock:
        items = [_listed(state, item) for item in found[offset : offset + count].tolist()]
    return {"items": items, "total": len(found), "offset": offset}


def _listed(state: State, item: int) -> Facts:
    facts = item_facts(state, item)
    if len(facts.get("text") or "") > EXCERPT:
        facts |= {"text": facts["text"][:EXCERPT] + "…", "is_cut": True}
    guess = None if state.model is None else state.model.guess(item)
    prediction = {"guess": None if guess is None else guess[0], "probability": None if guess is None else guess[1]}
    return {**facts, **_answer_facts(state, item), **prediction}


def class_facts(service: LabelingService) -> Facts:
    """The classes with their keys and numbers of labels, and the last change that can be undone."""
    state = service.state
    with state.lock:
        table, keys = state.label_table, state.project.keys
        counts = Counter(label for item, label in table.labels.items() if item not in state.contents.gone)
        last = table.undoable_change()
        classes = [{"class": each, "key": keys.get(each), "labels": counts[each]} for each in state.project.classes]
        change = last and {
            "number": last.number,
            "kind": last.kind,
            "class": last.label,
            "new_name": last.new_label,
            "annotator": last.annotator,
        }
        return {"classes": classes, "class_event": state.project.class_event, "last_change": change}


def guess_of(service: LabelingService, item: int) -> Facts:
    """The classes of an item by predicted probability, highest first."""
    state = service.state
    with state.lock:
        service.check_item(item)
        model = state.model
        if model is None or model.probabilities is None:
            raise MissingFile("there is no guess yet", hint="label a batch of items, of at least two classes.")
        order = np.argsort(-model.probabilities[item], kind="stable").tolist()
        ranked = [
            {"class": model.classes[each], "probability": float(model.probabilities[item, each])} for each in order
        ]
        return {"round": model.round, "ranked": ranked}


def project_facts(service: LabelingService) -> Facts:
    state = service.state
    with state.lock:
        project = state.project
        return {
            "ident": project.ident,
            "name": project.name,
            "kind": state.contents.kind,
            "items": state.n_items,
            "classes": list(project.classes),
            "keys": project.keys,
            "class_event": project.class_event,
            "guidelines": project.guidelines,
            "settings": asdict(project.settings),
            "round": state.round,
            "labeled": state.n_labeled,
            "skipped": state.n_skipped,
            "model": model_facts(service),
            "progress": round_progress(service),
            "restricted": state.restricted_to(),
            "keys_hint": KEYS,
        }


def round_progress(service: LabelingService) -> Facts:
    """The number of label changes since the last round, and the number that starts the next one."""
    state = service.state
    with state.lock:
        batch = state.project.settings.batch
        return {"done": min(state.changes_since_round(), batch), "of": batch}


def model_facts(service: LabelingService) -> Facts:
    """State and accuracy of the model; ``basis``: "drawn" if estimated for unlabeled items, else "held out"."""
    state, loop = service.state, service.loop
    last = state.rounds[-1] if state.rounds else None
    has_model = state.model is not None and state.model.probabilities is not None
    name = "fitting" if loop.is_fitting else "failed" if loop.failure else "ready" if has_model else "none"
    tested = None if last is None else _share(last.n_right, last.n_tested)
    estimate = None if last is None else _estimate_facts(last)
    return {
        "state": name,
        **(estimate or _accuracy_facts(tested)),
        "basis": "drawn" if estimate else "held out" if tested else None,
        "labels": 0 if last is None else last.labels,
        "message": loop.failure or ("" if last is None else last.message),
    }


def _share(right: int | None, total: int | None) -> Share | None:
    return None if right is None or not total else Share(right, total)


def _accuracy_facts(share: Share | None) -> Facts:
    if share is None:
        return {"accuracy": None, "low": None, "high": None}
    low, high = share.interval
    return {"accuracy": share.value, "low": low, "high": high}


def _estimate_facts(record: RoundRecord) -> Facts | None:
    """Estimated accuracy on the items without a label; None without enough randomly drawn labels."""
    if record.estimated is None:
        return None
    return {"accuracy": record.estimated, "low": record.estimated_low, "high": record.estimated_high}


def map_facts(service: LabelingService) -> Facts:
    """The pool as points; arrays are base64-encoded, little-endian."""
    state = service.state
    n_rows = len(state.contents)
    with state.lock:
        layout = state.layout
        if layout is None:
            return {"n": 0, "waiting": "The map is being computed; it will appear here in a moment."}
        label = np.full(n_rows, -1)
        numbers = {name: number for number, name in enumerate(state.project.classes)}
        if state.label_table.labels:
            rows = np.fromiter(state.label_table.labels, dtype=np.int64)
            label[rows] = [numbers.get(each, -1) for each in state.label_table.labels.values()]
        model = state.model
        excluded = np.zeros(n_rows) if state.is_open is None else ~state.is_open
        doubt = np.full(n_rows, np.nan)
        if model is not None and model.probabilities is not None:
            doubt = 1.0 - model.probabilities.max(axis=1)
        covered = [] if model is None else [float(each) for each in model.covered[1:]]
        return {
            "n": n_rows,
            "x": _encode(layout[:, 0], "<f4"),
            "y": _encode(layout[:, 1], "<f4"),
            "doubt": _encode(doubt, "<f4"),
            "label": _encode(label, "<i4"),
            "picked": _encode(_pick_order(state), "<i4"),
            "excluded": _encode(excluded, "<i4"),
            "covered": covered,
            "classes": list(state.project.classes),
        }


def _encode(values: AnyArray, kind: str) -> str:
    return base64.b64encode(np.asarray(values).astype(kind).tobytes()).decode()


def _pick_order(state: State) -> AnyArray:
    """(n,) selection order of the answered picks of earlier rounds and all picks of the last; -1 for other items."""
    order = np.full(len(state.contents), -1)
    number = 0
    for pick in state.picks:
        is_kept = pick.round == state.round or state.label_table.n_answers(pick.item) > 0
        if is_kept and order[pick.item] < 0:
            order[pick.item] = number
            number += 1
    return order


def curve_facts(service: LabelingService) -> Facts:
    """Accuracy of the model by round, and whether to continue labeling."""
    state = service.state
    with state.lock:
        last = state.rounds[-1] if state.rounds else None
        audited = None if last is None else _share(last.audited_right, last.audited)
        low, high = (None, None) if audited is None else audited.interval
        points = [_point(each) for each in _current_rounds(state.rounds) if each.n_tested]
        advice = {"stop": False, "sentence": "go on: nothing is labeled yet."}
        if last is not None:
            advice = {"stop": last.stop, "sentence": last.advice}
        return {
            "points": points,
            "guessed": _blind_accuracy(state),
            "audited": audited and {"right": audited.right, "of": audited.of, "low": low, "high": high},
            "estimate": None if last is None else _estimate_facts(last),
            "covered": [{"round": each.round, "share": each.covered} for each in state.rounds],
            "advice": advice,
        }


def _point(record: RoundRecord) -> Facts:
    held_out = _accuracy_facts(_share(record.n_right, record.n_tested))
    return {"labels": record.labels, **held_out, "round": record.round, "estimate": _estimate_facts(record)}


def _current_rounds(rounds: Sequence[RoundRecord]) -> list[RoundRecord]:
    """The rounds with fewer labels than every later round; the labels of the others were undone or trained on again."""
    found: list[RoundRecord] = []
    for each in reversed(rounds):
        if not found or each.labels < found[-1].labels:
            found.append(each)
    return found[::-1]


def _blind_accuracy(state: State) -> list[Facts]:
    labels = {each.round: each.labels for each in state.rounds}
    found = sorted(state.blind_hits().items())
    return [{"labels": labels.get(round, 0), "right": right, "of": total} for round, (right, total) in found]


def review_facts(service: LabelingService, limit: int) -> Facts:
    """The labels that cross-validated models doubt most."""
    state = service.state
    with state.lock:
        model = state.model
        if model is None or not len(model.held_rows):
            return {"items": []}
        found = [entry for index in range(len(model.held_rows)) if (entry := _doubted(state, index)) is not None]
    found.sort(key=lambda each: (each["of_label"], each["row"]))
    return {"items": found[:limit]}


def _doubted(state: State, index: int) -> Facts | None:
    """The facts of a held-out item whose current label is not the predicted class; otherwise None."""
    model = state.model
    assert model is not None
    item, probabilities = int(model.held_rows[index]), model.held_out[index]
    label = state.label_table.labels.get(item)
    if label not in model.held_classes or np.isnan(probabilities[0]):
        return None
    answers = state.label_table.current_answers(item).values()
    if any(event.why == "review" or event.round >= model.round for event in answers):
        return None  # Already reviewed, or relabeled since.
    best = int(probabilities.argmax())
    if model.held_classes[best] == label:
        return None
    by = state.label_table.last_labeler(item)
    of_label = float(probabilities[model.held_classes.index(label)])
    guess = {"guess": model.held_classes[best], "probability": float(probabilities[best]), "of_label": of_label}
    return {**item_facts(state, item), "label": label, "by": by, **guess}


def annotator_facts(service: LabelingService) -> Facts:
    """Number of answers by annotator, and their agreement."""
    state = service.state
    with state.lock:
        table = state.label_table
        people = []
        for who, numbers in sorted(table.active.items()):
            # The last of several answers on an item counts.
            latest = {table.named[number].item: table.named[number] for number in numbers}.values()
            n_labels = sum(event.label is not None for event in latest)
            n_skipped = sum(event.kind == "skip" for event in latest)
            last = max((event.at for event in latest), default=None)
            people.append({"name": who, "labels": n_labels, "skipped": n_skipped, "last": last})
        shared = [
            [(who, str(event.label)) for who, event in table.votes(item).items()]
            for item, answers in table.current.items()
            if len(answers) > 1
        ]
    return {"annotators": people, "overlap": agreement(shared)._asdict()}


def grid_facts(service: LabelingService, guessed: GuessedItems) -> Facts:
    """Items with the same predicted class, for the grid."""
    state = service.state
    with state.lock:
        items = []
        for pick in guessed.picks:
            guess = None if state.model is None else state.model.guess(pick.item)
            prediction = {} if guess is None else {"guess": guess[0], "probability": guess[1]}
            items.append({**item_facts(state, pick.item, pick), **prediction})
    groups = [{"class": name, "items": n} for name, n in guessed.groups]
    return {"class": guessed.label, "items": items, "groups": groups, "waiting": waiting_sentence(service, bool(items))}


def waiting_sentence(service: LabelingService, has_items: bool) -> str | None:
    """Why there are no items to show; None if there are."""
    state = service.state
    if has_items:
        return None
    with state.lock:
        if not state.rounds:
            failed = service.loop.failure
            return f"The first picks could not be made: {failed}" if failed else "The first picks are being made."
        if state.is_open is not None:
            return "All items of your restriction are answered. Clear the restriction for more."
        return "All items are answered. Thank you."
