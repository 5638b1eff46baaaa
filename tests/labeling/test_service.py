"""Handing out items, leases, overlap, the guess before it is seen, audits, and a model of one's own."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from dubito.integrations.exchange.formats import read_label_studio
from dubito.labeling.creation import open_project
from dubito.labeling.events import Event
from dubito.labeling.export import export_labels, label_columns
from dubito.labeling.queue import PickQueue
from dubito.labeling.service import AnswerIn, LabelingService
from dubito.labeling.store import Pick
from dubito.labeling.user_probabilities import save_probabilities
from dubito.labeling.views import (
    agreement,
    annotator_facts,
    cohen,
    curve_facts,
    fleiss,
    model_facts,
    project_facts,
    review_facts,
    round_progress,
    waiting_sentence,
)
from labeling.projects import CLASSES, copy_played, make_project, truth, wait_until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LabelingService]:
    opened = LabelingService(*copy_played(tmp_path))
    opened.start()
    yield opened
    opened.close()


def rows(picks: list[Pick]) -> list[int]:
    return [pick.item for pick in picks]


def answer(service: LabelingService, row: int, who: str = "ann", label: str | None = "right one", **more: bool) -> None:
    said = truth(row) if label == "right one" else label
    service.answer([AnswerIn(f"{who}-{row}", who, row, said, **more)]).result()


def test_two_people_never_hold_the_same_item_and_each_keeps_what_they_hold(service: LabelingService) -> None:
    anns, bobs = rows(service.ask("ann", 5).result()), rows(service.ask("bob", 5).result())
    assert not set(anns) & set(bobs)
    assert rows(service.ask("ann", 5).result()) == anns
    answer(service, anns[0])
    assert rows(service.ask("ann", 4).result()) == anns[1:]


def test_a_lease_that_ran_out_goes_to_whoever_asks_next(tmp_path: Path) -> None:
    opened = LabelingService(*copy_played(tmp_path), lease=0.0)
    opened.start()
    first = rows(opened.ask("ann", 3).result())
    assert rows(opened.ask("bob", 3).result()) == first
    opened.close()


def test_what_is_released_is_there_for_others(service: LabelingService) -> None:
    first = rows(service.ask("ann", 3).result())
    assert service.release("ann").result() == 3
    assert rows(service.ask("bob", 3).result()) == first


def test_a_review_settles_a_label_and_is_no_vote_of_its_own(tmp_path: Path) -> None:
    opened = LabelingService(*make_project(tmp_path, overlap=2))
    for who in ("ann", "bob"):
        answer(opened, 0, who, "left")
    answer(opened, 0, "carl", "right", is_review=True)
    answer(opened, 1, "ann", "right")
    answer(opened, 1, "carl", "right", is_review=True)
    assert opened.state.label_table.labels == {0: "right", 1: "right"}
    columns = label_columns(opened.state)
    assert (columns["annotators"], columns["agreement"]) == ([2, 1], [0.0, 1.0])
    facts = annotator_facts(opened)
    assert facts["overlap"] == {"items": 1, "agree": 1.0, "kappa": None}
    opened.undo("u1", "carl").result()
    opened.undo("u2", "carl").result()
    assert opened.state.label_table.labels == {0: "left", 1: "right"}
    opened.close()


def test_a_person_who_answers_again_has_one_answer(tmp_path: Path) -> None:
    opened = LabelingService(*make_project(tmp_path))
    for number, label in enumerate(("left", "right", None)):
        opened.answer([AnswerIn(f"again-{number}", "ann", 0, label)]).result()
    (ann,) = annotator_facts(opened)["annotators"]
    assert (ann["labels"], ann["skipped"]) == (0, 1)
    opened.close()


def test_what_goes_to_label_studio_names_no_account_and_comes_back_with_its_people(tmp_path: Path) -> None:
    opened = LabelingService(*make_project(tmp_path, overlap=2))
    answer(opened, 0, "ann", "left")
    answer(opened, 0, "bob", "right")
    path = tmp_path / "tasks.json"
    path.write_bytes(export_labels(opened.state, "label-studio", safe=True).data)
    assert "completed_by" not in path.read_text()
    assert [(each.label, each.who) for each in read_label_studio(str(path))] == [("left", "ann"), ("right", "bob")]
    opened.close()


def test_with_an_overlap_of_two_each_item_goes_to_two_people_and_no_third(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path, n_rows=20, overlap=2)
    opened = LabelingService(project, contents)
    opened.start()
    wait_until(lambda: opened.state.round == 1)
    first = rows(opened.ask("ann", 4).result())
    for row in first:
        answer(opened, row)
    again = opened.ask("bob", 4).result()
    assert rows(again) == first
    assert {pick.why for pick in again} == {"overlap"}
    assert not set(first) & set(rows(opened.ask("cid", 20).result()))
    assert not set(first) & set(rows(opened.ask("ann", 20).result()))
    opened.close()


def test_the_guess_before_the_label_is_in_the_log_and_one_that_was_seen_does_not_count(
    service: LabelingService,
) -> None:
    for row in range(12):
        answer(service, row)
    wait_until(lambda: service.state.model is not None and service.state.model.probabilities is not None)
    answer(service, 20)
    answer(service, 21, guess_seen=True)
    events = {event.item: event for event in service.state.label_table.events.values()}
    assert events[0].guess is None
    assert (events[20].guess, events[20].guess_seen) == ("left", False)
    assert (events[21].guess, events[21].guess_seen) == ("right", True)
    assert 0.5 < (events[20].sure or 0.0) <= 1.0
    guessed = curve_facts(service)["guessed"]
    assert sum(each["of"] for each in guessed) == sum(
        event.guess is not None and not event.guess_seen for event in events.values()
    )
    answer(service, 20, "bob")
    assert service.state.label_table.events[service.state.label_table.last].guess is None


def test_an_audit_draws_its_share_at_random_and_is_told_apart(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path, n_rows=400, audit=0.5, batch=50)
    opened = LabelingService(project, contents)
    opened.start()
    wait_until(lambda: opened.state.round == 1)
    picks = opened.state.queue.picks
    drawn = [pick for pick in picks if pick.why == "audit"]
    assert 0.25 * len(picks) < len(drawn) < 0.75 * len(picks)
    assert rows(opened.ask("ann", 40).result()) == [pick.item for pick in picks[:40]]
    for pick in picks[:40]:
        answer(opened, pick.item)
    opened.loop.request_round()
    wait_until(lambda: opened.state.rounds[-1].labels >= 40)
    audited = curve_facts(opened)["audited"]
    assert audited["of"] == sum(pick.why == "audit" for pick in picks[:40])
    assert audited["right"] == audited["of"]
    opened.close()


@pytest.fixture
def drawn(tmp_path: Path) -> Iterator[tuple[LabelingService, list[int]]]:
    """A service without a learner, in a round that drew every item for the audit; and those items."""
    opened = LabelingService(*make_project(tmp_path, overlap=2, audit=1.0))
    picks = [Pick(1, rank, item, "audit") for rank, item in enumerate(range(10, 20))]
    opened.state.picks += picks
    opened.state.queue.replace(picks)
    yield opened, [pick.item for pick in picks]
    opened.close()


def whys(service: LabelingService) -> list[str]:
    return [event.why for event in service.state.label_table.events.values()]


def test_only_who_was_handed_an_item_and_has_not_seen_the_guess_answers_the_audit(
    drawn: tuple[LabelingService, list[int]],
) -> None:
    service, items = drawn
    answer(service, items[0])  # Chosen on the map, say.
    handed = rows(service.ask("ann", 3).result())
    answer(service, handed[0], guess_seen=True)
    answer(service, handed[1])
    assert rows(service.ask("bob", 1).result()) == [items[0]]
    answer(service, items[0], "bob")
    assert whys(service) == ["random", "random", "audit", "random"]
    assert service.state.audited() == [handed[1]]


def test_an_answer_under_a_restriction_or_one_that_was_taken_back_is_none_of_the_audit(
    drawn: tuple[LabelingService, list[int]],
) -> None:
    service, items = drawn
    service.restrict("only", items[:5]).result()
    handed = rows(service.ask("ann", 2).result())
    answer(service, handed[0])
    service.restrict("clear", []).result()
    answer(service, handed[1])
    assert whys(service) == ["random", "audit"]
    assert service.state.audited() == [handed[1]]
    service.undo("back", "ann").result()
    service.answer([AnswerIn("again", "ann", handed[1], "left", guess_seen=True)]).result()
    assert service.state.audited() == []


def test_what_an_older_dubito_called_an_audit_without_a_draw_does_not_count(
    drawn: tuple[LabelingService, list[int]],
) -> None:
    service, items = drawn
    table = service.state.label_table
    table.add(Event(1, "a", "label", "ann", items[0], "left", 1, None, 0.0, why="audit"))
    table.add(Event(2, "b", "label", "ann", 40, "left", 1, None, 0.0, why="audit"))
    assert service.state.audited() == [items[0]]


def test_a_persons_own_model_takes_the_place_of_dubitos(service: LabelingService, tmp_path: Path) -> None:
    sure = np.full((60, 2), 0.5)
    sure[:, 0] = np.where(np.arange(60) == 13, 0.5, 0.99)
    sure[:, 1] = 1.0 - sure[:, 0]
    np.savez(tmp_path / "mine.npz", probabilities=sure, classes=np.array(CLASSES))
    assert save_probabilities(service.state.project, service.state.contents, str(tmp_path / "mine.npz")) == 60
    service.loop.request_round()
    wait_until(lambda: service.state.round >= 2)
    model = service.state.model
    assert model is not None
    name, sure_of_it = model.guess(5) or ("", 0.0)
    assert name == "left"
    assert sure_of_it == pytest.approx(0.99)
    wait_until(lambda: project_facts(service)["model"]["state"] == "ready")


def test_a_worker_that_fails_says_why_and_labels_go_on(tmp_path: Path) -> None:
    opened = LabelingService(*make_project(tmp_path))
    pool = Path(opened.state.project.pool_path)
    pool.rename(pool.with_suffix(".gone"))
    opened.start()
    wait_until(lambda: bool(model_facts(opened)["state"] == "failed"))
    assert "does not exist" in model_facts(opened)["message"]
    answer(opened, 3)
    assert opened.state.label_table.labels == {3: "right"}
    pool.with_suffix(".gone").rename(pool)
    opened.loop.request_round()
    wait_until(lambda: opened.loop.failure is None and opened.state.round >= 1)
    opened.close()


def test_when_the_picks_run_out_items_are_drawn_and_in_the_end_it_says_thanks(tmp_path: Path) -> None:
    project, contents = make_project(tmp_path, n_rows=30, batch=10_000)
    opened = LabelingService(project, contents)
    queue = opened.state.queue
    assert waiting_sentence(opened, has_items=False) == "The first picks are being made."
    queue.replace([Pick(1, 0, 4, "first")])
    found = opened.ask("ann", 64).result()
    assert rows(found)[0] == 4
    assert sorted(rows(found)) == list(range(30))
    assert {pick.why for pick in found[1:]} == {"random"}
    opened.start()
    for row in range(30):
        answer(opened, row)
    assert opened.ask("ann", 5).result() == []
    wait_until(lambda: opened.state.round >= 1)
    assert waiting_sentence(opened, has_items=False) == "All items are answered. Thank you."
    opened.close()


@pytest.mark.parametrize("picked", [range(0), range(12)])
def test_an_item_whose_answer_is_taken_back_is_handed_out_again(tmp_path: Path, picked: range) -> None:
    opened = LabelingService(*make_project(tmp_path, n_rows=12))
    opened.state.queue.replace([Pick(1, rank, item, "first") for rank, item in enumerate(picked)])
    for row in range(12):
        answer(opened, row)
    assert opened.ask("bob", 12).result() == []
    for number in range(12):
        opened.undo(f"u{number}", "ann").result()
    opened.release("ann").result()
    assert sorted(rows(opened.ask("bob", 12).result())) == list(range(12))
    opened.close()


def test_classes_and_settings_last_and_reach_a_page_that_listens(service: LabelingService) -> None:
    heard: list[str] = []
    stop = service.listen(lambda kind, facts: heard.append(kind))
    service.add_class("up").result()
    service.change("Look twice.", {"batch": 7, "overlap": 2}).result()
    answer(service, 3)
    stop()
    assert {"project", "labels"} <= set(heard)
    again = open_project(service.state.project.folder)[0]
    assert again.classes == (*CLASSES, "up")
    assert (again.guidelines, again.settings.batch, again.settings.overlap) == ("Look twice.", 7, 2)
    assert service.state.queue.overlap == 2


def test_review_is_empty_before_there_is_a_model(service: LabelingService) -> None:
    assert review_facts(service, 10) == {"items": []}


def test_kappa_of_two_is_scikit_learns_and_of_more_is_fleiss() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.choice(list("abc"), 50), rng.choice(list("abc"), 50)
    pairs = [[("ann", str(a)), ("bob", str(b))] for a, b in zip(ours, theirs, strict=True)]
    assert cohen(pairs) == pytest.approx(cohen_kappa_score(ours, theirs))
    assert agreement(pairs).kappa == pytest.approx(cohen_kappa_score(ours, theirs))
    # Fleiss (1971), the first three subjects of a table by six raters: by hand.
    table = [[(str(n), label) for n, label in enumerate(labels)] for labels in ("aaaaab", "aabbbb", "bbbbbb")]
    observed = (20 + 14 + 30) / 90
    expected = (7 / 18) ** 2 + (11 / 18) ** 2
    assert fleiss(table) == pytest.approx((observed - expected) / (1 - expected))
    assert agreement([[("ann", "a")]]).items == 0
    assert agreement([[("ann", "a"), ("bob", "a")]]).kappa is None


def test_nobody_is_handed_what_they_have_answered(service: LabelingService) -> None:
    queue: PickQueue = service.state.queue
    for row in range(5):
        answer(service, row)
    assert not {0, 1, 2, 3, 4} & set(rows(queue.ask("ann", 64, 0.0)))


def test_labels_that_are_undone_are_no_progress_to_the_next_round(tmp_path: Path) -> None:
    service = LabelingService(*make_project(tmp_path))
    for row in range(3):
        service.answer([AnswerIn(f"key-{row}", "ann", row, "left")]).result()
    assert round_progress(service)["done"] == 3
    for row in range(2):
        service.undo(f"undo-{row}", "ann").result()
    assert round_progress(service)["done"] == 1
    service.answer([AnswerIn("again", "ann", 0, "right")]).result()
    assert round_progress(service)["done"] == 1
    service.close()
