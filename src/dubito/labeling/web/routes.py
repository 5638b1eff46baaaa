"""What the API changes: every answer comes after the commit."""

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
from dubito.labeling import views
from dubito.labeling.export import export_labels
from dubito.labeling.pictures import LARGEST_EDGE, Pictures
from dubito.labeling.service import AnswerIn, LabelingService
from dubito.labeling.user_probabilities import drop_own, keep_own_bytes
from dubito.labeling.views import model_facts, project_facts

# Changes as server-sent events, to every page that listens.

PING = 15.0
"""Seconds after which a page that hears nothing is told that somebody is there."""
MOST_WAITING = 1000
"""Events that wait for a page that does not read."""


async def stream(service: LabelingService, is_stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Events as they come; ends with the server."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(MOST_WAITING)

    def put(kind: str, facts: dict[str, Any]) -> None:
        if not waiting.full():
            waiting.put_nowait((kind, facts))

    def hear(kind: str, facts: dict[str, Any]) -> None:
        with suppress(RuntimeError):  # The server has just stopped.
            loop.call_soon_threadsafe(put, kind, facts)

    stop = service.listen(hear)
    try:
        yield _event("ping", {})
        while not is_stopping.is_set():
            try:
                kind, facts = await asyncio.wait_for(waiting.get(), PING)
            except TimeoutError:
                kind, facts = "ping", {}
            yield _event(kind, _reported(service, kind, facts))
    finally:
        stop()


def _reported(service: LabelingService, kind: str, facts: dict[str, Any]) -> dict[str, Any]:
    if kind == "model":
        with service.state.lock:
            return model_facts(service)
    if kind == "project":
        found = project_facts(service)
        return {name: found[name] for name in ("classes", "guidelines", "settings", "restricted")}
    return facts


def _event(kind: str, facts: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(facts)}\n\n".encode()


# What requests may say and answers do say, as the OpenAPI description has it.

Name = Annotated[str, Field(min_length=1, max_length=200)]
Key = Annotated[
    str, Field(min_length=1, max_length=200, description="Chosen by the client; sent again, nothing doubles.")
]
Row = Annotated[int, Field(ge=0, le=2**53 - 1, description="The row of the pool.")]


class Strict(BaseModel):
    """No field but those that are known, and none of another type."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, strict=True)


class GivenLabel(Strict):
    """A label, or with class null a skip."""

    key: Key
    row: Row
    label: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(alias="class")
    guess_seen: bool = False
    review: bool = Field(default=False, description="Whether it settles a label that the model doubted.")
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False, strict=False)] | None = None


class OneLabel(GivenLabel):
    """The same, and who says it."""

    annotator: Name
    round: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None


class ManyLabels(Strict):
    """Labels that are kept all together or not at all."""

    annotator: Name
    labels: Annotated[list[GivenLabel], Field(min_length=1, max_length=500)]


class Undo(Strict):
    """Whose last answer is taken back."""

    key: Key
    annotator: Name


class NewClass(Strict):
    """A class more."""

    name: Name
    key: Key | None = None


class Changes(Strict):
    """Other guidelines or settings; what is left out stays."""

    guidelines: Annotated[str, Field(max_length=20_000)] | None = None
    batch: Annotated[int, Field(ge=1, le=10_000)] | None = None
    overlap: Annotated[int, Field(ge=1, le=100)] | None = None
    audit: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=False)] | None = None


class Restriction(Strict):
    """What may be asked for."""

    mode: Literal["only", "exclude", "clear"]
    rows: Annotated[list[Row], Field(max_length=2_000_000)] = []


class Release(Strict):
    """Who has gone."""

    annotator: Name


class Refusal(BaseModel):
    """What went wrong, and the fix."""

    error: str


class LabelAnswer(BaseModel):
    """An event that is on the disk."""

    event: int
    labelled: int


Wrong = dict[int | str, dict[str, Any]]
LABELLED: Wrong = {
    200: {"model": LabelAnswer, "description": "The key was sent before: nothing is doubled."},
    404: {"model": Refusal},
    409: {"model": Refusal},
    507: {"model": Refusal, "description": "It could not be saved."},
}
ADDED: Wrong = {
    200: {"description": "The key was sent before: nothing is doubled."},
    409: {"model": Refusal},
    507: {"model": Refusal, "description": "It could not be saved."},
}
UPLOAD: dict[str, Any] = {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}


def changing(service: LabelingService) -> APIRouter:
    """Routes that change something."""
    api = APIRouter(prefix="/api")

    @api.post("/labels", status_code=201, response_model=LabelAnswer, responses=LABELLED)
    async def label(body: OneLabel) -> Response:
        """A label, or a skip."""
        (kept,) = await asyncio.wrap_future(service.answer([_answer(body, body.annotator)]))
        facts = {"event": kept.event.number, "labelled": kept.labelled}
        return JSONResponse(facts, status_code=201 if kept.is_new else 200)

    @api.post("/labels/many", status_code=201, responses=LABELLED)
    async def labels(body: ManyLabels) -> Response:
        """Many at once, all or nothing."""
        kept = await asyncio.wrap_future(service.answer([_answer(each, body.annotator) for each in body.labels]))
        facts = {"events": [each.event.number for each in kept], "labelled": kept[-1].labelled}
        return JSONResponse(facts, status_code=201 if any(each.is_new for each in kept) else 200)

    @api.post("/undo", responses={409: {"model": Refusal}})
    async def undo(body: Undo) -> dict[str, Any]:
        """The last answer taken back."""
        kept = await asyncio.wrap_future(service.undo(body.key, body.annotator))
        item = kept.event.item
        return {
            "event": kept.event.number,
            "row": item,
            "item": views.one_item(service, item),
            "labelled": kept.labelled,
        }

    @api.post("/classes", status_code=201, responses=ADDED)
    async def add_class(body: NewClass) -> Response:
        """A class more."""
        is_new = await asyncio.wrap_future(service.add_class(body.name, body.key))
        return JSONResponse({"classes": views.project_facts(service)["classes"]}, status_code=201 if is_new else 200)

    @api.patch("/project")
    async def change(body: Changes) -> dict[str, Any]:
        """Other guidelines or settings."""
        given = body.model_dump(exclude={"guidelines"}, exclude_none=True)
        await asyncio.wrap_future(service.change(body.guidelines, given))
        return views.project_facts(service)

    @api.post("/restrict", responses={404: {"model": Refusal}})
    async def restrict(body: Restriction) -> dict[str, int]:
        """What may be asked for."""
        return {"candidates": await asyncio.wrap_future(service.restrict(body.mode, body.rows))}

    @api.post("/round", status_code=202)
    async def ask_round() -> dict[str, int]:
        """Fit and pick now."""
        service.loop.ask()
        return {"round": service.state.round + 1}

    @api.post("/release", openapi_extra=_described(Release))
    async def release(request: Request) -> dict[str, int]:
        """What this person holds is given back; a page that closes says it as plain text."""
        given = await asyncio.wrap_future(service.release(_read_release(await request.body()).annotator))
        return {"released": given}

    @api.put("/probabilities", openapi_extra=UPLOAD)
    async def put_probabilities(request: Request) -> dict[str, int]:
        """Probabilities of your own model (.npz, .parquet or .csv) in the place of dubito's."""
        data = await request.body()
        state = service.state
        rows = await run_in_threadpool(keep_own_bytes, state.project, state.contents, data)
        service.loop.ask()
        return {"rows": rows}

    @api.delete("/probabilities")
    async def delete_probabilities() -> dict[str, bool]:
        """Back to dubito's own model."""
        drop_own(service.state.project)
        service.loop.ask()
        return {"own": False}

    return api


def _answer(said: GivenLabel, annotator: str) -> AnswerIn:
    return AnswerIn(said.key, annotator, said.row, said.label, said.guess_seen, said.seconds, said.review)


def _read_release(body: bytes) -> Release:
    try:
        return Release.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError):
        raise InvalidArgument("that says not who has gone", hint='send {"annotator": "..."}.') from None


def _described(model: type[Release]) -> dict[str, Any]:
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


# What the API tells.

Format = Literal["csv", "jsonl", "parquet", "label-studio", "json-min", "prodigy", "doccano"]
Item = Annotated[int, Path(ge=0, le=2**53 - 1, description="The row of the pool.")]
Responses = dict[int | str, dict[str, Any]]

MISSING: Responses = {404: {"model": Refusal}}
PICTURE: Responses = {
    200: {"content": {"image/png": {}, "image/jpeg": {}}},
    **MISSING,
    415: {"model": Refusal},
    503: {"model": Refusal},
}


def reading(service: LabelingService, pictures: Pictures, is_stopping: asyncio.Event) -> APIRouter:
    """Routes that change nothing."""
    api = APIRouter(prefix="/api")

    @api.get("/project")
    def project() -> dict[str, Any]:
        """The project in a few numbers."""
        return views.project_facts(service)

    @api.get("/health", responses={503: {"description": "Labels cannot be saved now."}})
    def health() -> Response:
        """Whether labels can be saved (200 or 503), and what does not work."""
        failures = service.failures()
        return JSONResponse({"ok": not failures, "failures": failures}, status_code=503 if "store" in failures else 200)

    @api.get("/next")
    async def following(annotator: Name, count: Annotated[int, Query(ge=1, le=64)] = 8) -> dict[str, Any]:
        """Items to show next, held for this person."""
        picks = await asyncio.wrap_future(service.ask(annotator, count))
        with service.state.lock:
            items = [views.item_facts(service.state, pick.item, pick) for pick in picks]
            left = service.state.waiting.left()
        return {"items": items, "left": left, "waiting": views.waiting_sentence(service, bool(items))}

    @api.get("/grid", responses=MISSING)
    async def grid(
        annotator: Name,
        count: Annotated[int, Query(ge=1, le=64)] = 24,
        label: Annotated[str | None, Query(alias="class", max_length=200)] = None,
    ) -> dict[str, Any]:
        """Items that the model takes for a class, the surest first; without a model, the next ones."""
        guessed = await asyncio.wrap_future(service.ask_guessed(annotator, label, count))
        if not guessed.groups:
            guessed = guessed._replace(picks=await asyncio.wrap_future(service.ask(annotator, count)))
        return views.grid_facts(service, guessed)

    @api.get("/items/{row}", responses=MISSING)
    def item(row: Item) -> dict[str, Any]:
        """One item, with its label."""
        return views.one_item(service, row)

    @api.get("/items/{row}/picture", response_class=Response, responses=PICTURE)
    async def picture(row: Item, edge: Annotated[int, Query(ge=16, le=LARGEST_EDGE)] = 1024) -> Response:
        """Its picture, no larger than that."""
        service.check_item(row)
        found = await pictures.show(service.state.contents, row, edge)
        return Response(found.data, media_type=found.media, headers={"cache-control": "private, max-age=3600"})

    @api.get("/items/{row}/guess", responses=MISSING)
    def guess(row: Item) -> dict[str, Any]:
        """What the model takes it for."""
        return views.guess_of(service, row)

    @api.get("/map", responses={304: {"description": "You have it."}, **MISSING})
    def whole_map(request: Request) -> Response:
        """Every item as a point."""
        with service.state.lock:
            n_drawn = 0 if service.state.places is None else len(service.state.places)
            tag = f'"{service.state.version}-{service.state.round}-{n_drawn}"'
        headers = {"etag": tag, "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return JSONResponse(views.map_facts(service), headers=headers)

    @api.get("/curve")
    def curve() -> dict[str, Any]:
        """How well the models do."""
        return views.curve_facts(service)

    @api.get("/review")
    def review(limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        """Labels that the model doubts."""
        return views.review_facts(service, limit)

    @api.get("/annotators")
    def annotators() -> dict[str, Any]:
        """Who labels, and how far they agree."""
        return views.annotator_facts(service)

    @api.get("/export", response_class=Response)
    def export(format: Format = "csv", safe: Literal["0", "1"] = "1") -> Response:
        """The labels as a file."""
        found = export_labels(service.state, format, safe=safe == "1")
        digest = hashlib.blake2b(found.data, digest_size=8).hexdigest()
        headers = {"content-disposition": f'attachment; filename="{found.name}"', "etag": f'"{digest}"'}
        return Response(found.data, media_type=found.media, headers=headers)

    @api.get("/events", response_class=StreamingResponse)
    async def events() -> StreamingResponse:
        """Changes as they come, as server-sent events."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(stream(service, is_stopping), media_type="text/event-stream", headers=headers)

    return api
