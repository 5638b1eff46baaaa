"""The HTTP API: routes that read, routes that write (they respond after the commit), and the event stream."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dubito.errors import InvalidArgument
from dubito.integrations.exchange.formats import ProjectFormat
from dubito.labeling import views
from dubito.labeling.export import export_labels
from dubito.labeling.listing import ItemList, ListQuery, Show, Sort
from dubito.labeling.pictures import LARGEST_EDGE, Pictures
from dubito.labeling.service import AnswerIn, ClassChangeIn, LabelingService
from dubito.labeling.similarity import Similarity
from dubito.labeling.user_probabilities import remove_probabilities, save_probabilities_bytes

PING_SECONDS = 15.0
"""Interval of pings on an event stream that has no events."""
MAX_QUEUED_EVENTS = 1000
"""Maximum number of events queued for a page that does not read them; further ones are dropped."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Key = Annotated[str, Field(min_length=1, max_length=200, description="Idempotency key chosen by the client.")]
MAX_INTEGER = 2**53 - 1
"""The largest integer that JavaScript represents exactly."""
Row = Annotated[int, Field(ge=0, le=MAX_INTEGER, description="Row index in the pool.")]
Item = Annotated[int, Path(ge=0, le=MAX_INTEGER, description="Row index in the pool.")]
EventNumber = Annotated[int, Field(ge=1, le=MAX_INTEGER)]


# Request and response models, as described by OpenAPI.


class Strict(BaseModel):
    """A request body; unknown fields and other types are rejected."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=200)]


class Listing(BaseModel):
    """Filters, order and page of the list of items; filters that are left out match every item."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    show: Show = "all"
    label: Text | None = Field(default=None, alias="class")
    annotator: Text | None = Field(default=None, description="Only items that this annotator answered.")
    guess: Text | None = Field(default=None, description="Only items of this predicted class.")
    low: Share = Field(default=0.0, description="Least probability of the predicted class.")
    high: Share = Field(default=1.0, description="Upper bound of that probability, excluded unless it is 1.")
    text: Text = Field(default="", description="Part of the name, the text or a column; case is ignored.")
    sort: Sort | None = Field(default=None, description="`similar` by default with `like` or `about`.")
    like: Row | None = Field(default=None, description="Row of an item: sort by distance to it in the features.")
    within: Share = Field(
        default=1.0, description="With `like`, maximum distance as a share of the median distance; 1 for no limit."
    )
    about: Text = Field(default="", description="Sort by similarity to this text, if `text_search` of the project.")
    offset: Annotated[int, Field(ge=0, le=MAX_INTEGER)] = 0
    count: Annotated[int, Field(ge=1, le=200)] = 60


class GivenLabel(Strict):
    """A label; class null is a skip."""

    key: Key
    row: Row
    label: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(alias="class")
    guess_seen: bool = False
    review: bool = Field(default=False, description="Whether the annotator decided a label that the model doubted.")
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False, strict=False)] | None = None
    class_event: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = Field(
        default=None, description="`class_event` of the project as the client knew it: later renames are followed."
    )


class OneLabel(GivenLabel):
    """A label with its annotator."""

    annotator: Name
    round: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None


class ManyLabels(Strict):
    """Labels that are stored all together or not at all."""

    annotator: Name
    labels: Annotated[list[GivenLabel], Field(min_length=1, max_length=500)]


class Undo(Strict):
    """The annotator whose last answer is undone, or several of their answers together."""

    key: Key
    annotator: Name
    events: Annotated[list[EventNumber], Field(min_length=1, max_length=500)] | None = Field(
        default=None, description="Numbers of the annotator's answers to undo; the last one if left out."
    )


class NewClass(Strict):
    """A class to add."""

    name: Name
    key: Key | None = None


class ClassChange(Strict):
    """A change of a class, which its labels follow; `new_name` is the other class for a merge."""

    key: Key
    annotator: Name
    kind: Literal["rename", "merge", "remove", "undo"]
    label: Name | None = Field(default=None, alias="class")
    new_name: Name | None = None
    number: EventNumber | None = Field(default=None, description="For an undo, `number` of the `last_change`.")


class Changes(Strict):
    """New guidelines, settings, order or keys of classes; omitted fields stay unchanged."""

    guidelines: Annotated[str, Field(max_length=20_000)] | None = None
    batch: Annotated[int, Field(ge=1, le=10_000)] | None = None
    overlap: Annotated[int, Field(ge=1, le=100)] | None = None
    audit: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=False)] | None = None
    classes: Annotated[list[Name], Field(max_length=500)] | None = Field(
        default=None, description="All classes, in another order."
    )
    keys: dict[Name, Annotated[str, Field(min_length=1, max_length=1)]] | None = Field(
        default=None, description="Keys of classes; the other classes keep theirs, or get free ones."
    )


class Restriction(Strict):
    """The items that may be queried."""

    mode: Literal["only", "exclude", "clear"]
    rows: Annotated[list[Row], Field(max_length=2_000_000)] = []


class Release(Strict):
    """The annotator whose leases end."""

    annotator: Name


class Refusal(BaseModel):
    """An error message with a hint."""

    error: str


class LabelAnswer(BaseModel):
    """A stored event."""

    event: int
    labeled: int


Responses = dict[int | str, dict[str, Any]]
LABELED: Responses = {
    200: {"model": LabelAnswer, "description": "The key was sent before; nothing new is stored."},
    404: {"model": Refusal},
    409: {"model": Refusal},
    507: {"model": Refusal, "description": "It could not be saved."},
}
ADDED: Responses = {
    200: {"description": "The key was sent before; nothing new is stored."},
    409: {"model": Refusal},
    507: {"model": Refusal, "description": "It could not be saved."},
}
UPLOAD: dict[str, Any] = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}
RELEASE: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": Release.model_json_schema()}}}
}
MISSING: Responses = {404: {"model": Refusal}}
PICTURE: Responses = {
    200: {"content": {"image/png": {}, "image/jpeg": {}}},
    **MISSING,
    415: {"model": Refusal},
    503: {"model": Refusal},
}


def read_routes(service: LabelingService, pictures: Pictures, is_stopping: asyncio.Event) -> APIRouter:
    api = APIRouter(prefix="/api")
    listed, similarity = ItemList(service.state), Similarity(service.state)

    @api.get("/project")
    def project() -> dict[str, Any]:
        """Summary of the project."""
        return {**views.project_facts(service), "text_search": similarity.understands_texts}

    @api.get("/health", responses={503: {"description": "Labels cannot be saved now."}})
    def health() -> Response:
        """Whether labels can be saved (200 or 503), and what fails."""
        failures = service.failures()
        return JSONResponse({"ok": not failures, "failures": failures}, status_code=503 if "store" in failures else 200)

    @api.get("/next")
    async def next_items(annotator: Name, count: Annotated[int, Query(ge=1, le=64)] = 8) -> dict[str, Any]:
        """Items to show next, leased to the annotator."""
        picks = await asyncio.wrap_future(service.ask(annotator, count))
        with service.state.lock:
            items = [views.item_facts(service.state, pick.item, pick) for pick in picks]
            left = service.state.queue.n_unanswered()
        return {"items": items, "left": left, "waiting": views.waiting_sentence(service, bool(items))}

    @api.get("/grid", responses=MISSING)
    async def grid(
        annotator: Name,
        count: Annotated[int, Query(ge=1, le=64)] = 24,
        label: Annotated[str | None, Query(alias="class", max_length=200)] = None,
    ) -> dict[str, Any]:
        """Items predicted as a class, most confident first; without a model, the next items."""
        guessed = await asyncio.wrap_future(service.ask_guessed(annotator, label, count))
        if not guessed.groups:
            guessed = guessed._replace(picks=await asyncio.wrap_future(service.ask(annotator, count)))
        return views.grid_facts(service, guessed)

    @api.get("/items", responses=MISSING)
    def items(given: Annotated[Listing, Query()]) -> dict[str, Any]:
        """All items that match some filters, a page at a time, with their labels and predictions."""
        distances = None if given.like is None else similarity.to_item(service.check_item(given.like))
        note = None
        if about := given.about.strip():
            distances, note = similarity.to_text(about), similarity.note(about)
        sort = given.sort or ("order" if distances is None else "similar")
        filters = given.model_dump(include={"show", "label", "annotator", "guess", "low", "high", "within"})
        query = ListQuery(**filters, text=given.text.strip(), sort=sort)
        return {**views.list_facts(service, listed.find(query, distances), given.offset, given.count), "note": note}

    @api.get("/items/{row}", responses=MISSING)
    def item(row: Item) -> dict[str, Any]:
        """An item with its label."""
        return views.one_item(service, row)

    @api.get("/items/{row}/picture", response_class=Response, responses=PICTURE)
    async def picture(row: Item, edge: Annotated[int, Query(ge=16, le=LARGEST_EDGE)] = 1024) -> Response:
        """The picture of an item, with at most `edge` pixels per side."""
        service.check_item(row)
        found = await pictures.show(service.state.contents, row, edge)
        return Response(found.data, media_type=found.media, headers={"cache-control": "private, max-age=3600"})

    @api.get("/items/{row}/guess", responses=MISSING)
    def guess(row: Item) -> dict[str, Any]:
        """The model's prediction for an item."""
        return views.guess_of(service, row)

    @api.get("/map", responses={304: {"description": "Not modified."}, **MISSING})
    def whole_map(request: Request) -> Response:
        """The map: every item as a point."""
        with service.state.lock:
            n_points = 0 if service.state.layout is None else len(service.state.layout)
            tag = f'"{service.state.version}-{service.state.round}-{n_points}"'
        headers = {"etag": tag, "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return JSONResponse(views.map_facts(service), headers=headers)

    @api.get("/curve")
    def curve() -> dict[str, Any]:
        """Estimated accuracy of the model by round."""
        return views.curve_facts(service)

    @api.get("/review")
    def review(limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        """Labels that the model doubts most."""
        return views.review_facts(service, limit)

    @api.get("/classes")
    def classes() -> dict[str, Any]:
        """The classes with their keys and numbers of labels, and the last change that can be undone."""
        return views.class_facts(service)

    @api.get("/annotators")
    def annotators() -> dict[str, Any]:
        """The annotators and their agreement."""
        return views.annotator_facts(service)

    @api.get("/export", response_class=Response)
    def export(format: ProjectFormat = "csv", safe: Literal["0", "1"] = "1") -> Response:
        """The labels as a file."""
        found = export_labels(service.state, format, safe=safe == "1")
        digest = hashlib.blake2b(found.data, digest_size=8).hexdigest()
        headers = {"content-disposition": f'attachment; filename="{found.name}"', "etag": f'"{digest}"'}
        return Response(found.data, media_type=found.media, headers=headers)

    @api.get("/events", response_class=StreamingResponse)
    async def events() -> StreamingResponse:
        """Changes as server-sent events."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(stream_events(service, is_stopping), media_type="text/event-stream", headers=headers)

    return api


def write_routes(service: LabelingService) -> APIRouter:
    api = APIRouter(prefix="/api")

    @api.post("/labels", status_code=201, response_model=LabelAnswer, responses=LABELED)
    async def label(body: OneLabel) -> Response:
        """Store a label or a skip."""
        (stored,) = await asyncio.wrap_future(service.answer([_to_answer(body, body.annotator)]))
        facts = {"event": stored.event.number, "labeled": stored.labeled}
        return JSONResponse(facts, status_code=201 if stored.is_new else 200)

    @api.post("/labels/many", status_code=201, responses=LABELED)
    async def labels(body: ManyLabels) -> Response:
        """Store several labels, all or none."""
        stored = await asyncio.wrap_future(service.answer([_to_answer(each, body.annotator) for each in body.labels]))
        facts = {"events": [each.event.number for each in stored], "labeled": stored[-1].labeled}
        return JSONResponse(facts, status_code=201 if any(each.is_new for each in stored) else 200)

    @api.post("/undo", responses={409: {"model": Refusal}})
    async def undo(body: Undo) -> dict[str, Any]:
        """Undo the annotator's last answer, or several answers together, as one change."""
        stored = await asyncio.wrap_future(service.undo_answers(body.key, body.annotator, body.events))
        items = [views.one_item(service, each.event.item) for each in stored]
        return {
            "event": stored[0].event.number,
            "row": items[0]["row"],
            "item": items[0],
            "items": items,
            "labeled": stored[-1].labeled,
        }

    @api.post("/classes", status_code=201, responses=ADDED)
    async def add_class(body: NewClass) -> Response:
        """Add a class."""
        is_new = await asyncio.wrap_future(service.add_class(body.name, body.key))
        return JSONResponse({"classes": views.project_facts(service)["classes"]}, status_code=201 if is_new else 200)

    @api.post("/classes/change", status_code=201, responses=ADDED)
    async def change_class(body: ClassChange) -> Response:
        """Rename, merge or remove a class, or undo the last such change; labels follow."""
        given = ClassChangeIn(body.key, body.annotator, body.kind, body.label, body.new_name, body.number)
        is_new = await asyncio.wrap_future(service.change_class(given))
        return JSONResponse(views.class_facts(service), status_code=201 if is_new else 200)

    @api.patch("/project")
    async def change(body: Changes) -> dict[str, Any]:
        """Change the guidelines, the settings, the order of the classes or their keys."""
        given = body.model_dump(exclude={"guidelines", "classes", "keys"}, exclude_none=True)
        await asyncio.wrap_future(service.change(body.guidelines, given, body.classes, body.keys))
        return views.project_facts(service)

    @api.post("/restrict", responses={404: {"model": Refusal}})
    async def restrict(body: Restriction) -> dict[str, int]:
        """Restrict which items may be queried."""
        return {"candidates": await asyncio.wrap_future(service.restrict(body.mode, body.rows))}

    @api.post("/round", status_code=202)
    async def ask_round() -> dict[str, int]:
        """Start a round now."""
        service.loop.request_round()
        return {"round": service.state.round + 1}

    @api.post("/release", openapi_extra=RELEASE)
    async def release(request: Request) -> dict[str, int]:
        """End the annotator's leases. A closing page sends this as text/plain (`navigator.sendBeacon`)."""
        try:
            given = Release.model_validate(json.loads(await request.body()))
        except (ValidationError, ValueError, RecursionError):
            hint = 'send {"annotator": "..."}.'
            raise InvalidArgument("the request does not name the annotator", hint=hint) from None
        return {"released": await asyncio.wrap_future(service.release(given.annotator))}

    @api.put("/probabilities", openapi_extra=UPLOAD)
    async def put_probabilities(request: Request) -> dict[str, int]:
        """Use the probabilities of your own model (.npz, .parquet or .csv) instead of dubito's."""
        data = await request.body()
        state = service.state
        rows = await run_in_threadpool(save_probabilities_bytes, state.project, state.contents, data)
        service.loop.request_round()
        return {"rows": rows}

    @api.delete("/probabilities")
    async def delete_probabilities() -> dict[str, bool]:
        """Return to dubito's own model."""
        remove_probabilities(service.state.project)
        service.loop.request_round()
        return {"own": False}

    return api


def _to_answer(given: GivenLabel, annotator: str) -> AnswerIn:
    seen, event = given.guess_seen, given.class_event
    return AnswerIn(given.key, annotator, given.row, given.label, seen, given.seconds, given.review, event)


async def stream_events(service: LabelingService, is_stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Changes as server-sent events, until the server stops."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(MAX_QUEUED_EVENTS)

    def put(kind: str, facts: dict[str, Any]) -> None:
        if not events.full():
            events.put_nowait((kind, facts))

    def forward(kind: str, facts: dict[str, Any]) -> None:
        with suppress(RuntimeError):  # The event loop has just stopped.
            loop.call_soon_threadsafe(put, kind, facts)

    unsubscribe = service.listen(forward)
    try:
        yield _encode_event("ping", {})
        while not is_stopping.is_set():
            try:
                kind, facts = await asyncio.wait_for(events.get(), PING_SECONDS)
            except TimeoutError:
                kind, facts = "ping", {}
            yield _encode_event(kind, _event_data(service, kind, facts))
    finally:
        unsubscribe()


def _event_data(service: LabelingService, kind: str, facts: dict[str, Any]) -> dict[str, Any]:
    if kind == "model":
        with service.state.lock:
            return views.model_facts(service)
    if kind in ("labels", "round"):
        return {**facts, "progress": views.round_progress(service)}
    if kind == "project":
        found = views.project_facts(service)
        return {name: found[name] for name in ("classes", "keys", "guidelines", "settings", "restricted")}
    return facts


def _encode_event(kind: str, facts: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(facts)}\n\n".encode()
