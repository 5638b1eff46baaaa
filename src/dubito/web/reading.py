"""What the API tells."""

import asyncio
import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from dubito.labelling import views
from dubito.labelling.desk import Desk
from dubito.labelling.exporting import export_labels
from dubito.labelling.pictures import LARGEST_EDGE, Pictures
from dubito.web.bodies import Name, Refusal
from dubito.web.streams import stream

Format = Literal["csv", "jsonl", "parquet", "label-studio", "json-min", "prodigy", "doccano"]
Item = Annotated[int, Path(ge=0, le=2**53 - 1, description="The row of the pool.")]
Wrong = dict[int | str, dict[str, Any]]

MISSING: Wrong = {404: {"model": Refusal}}
PICTURE: Wrong = {
    200: {"content": {"image/png": {}, "image/jpeg": {}}},
    **MISSING,
    415: {"model": Refusal},
    503: {"model": Refusal},
}


def reading(desk: Desk, pictures: Pictures, is_stopping: asyncio.Event) -> APIRouter:
    """Routes that change nothing."""
    api = APIRouter(prefix="/api")

    @api.get("/project")
    def project() -> dict[str, Any]:
        """The project in a few numbers."""
        return views.project_facts(desk)

    @api.get("/health", responses={503: {"description": "Labels cannot be saved now."}})
    def health() -> Response:
        """Whether labels can be saved (200 or 503), and what does not work."""
        failures = desk.failures()
        return JSONResponse({"ok": not failures, "failures": failures}, status_code=503 if "store" in failures else 200)

    @api.get("/next")
    async def following(annotator: Name, count: Annotated[int, Query(ge=1, le=64)] = 8) -> dict[str, Any]:
        """Items to show next, held for this person."""
        picks = await asyncio.wrap_future(desk.ask(annotator, count))
        with desk.state.lock:
            items = [views.item_facts(desk.state, pick.item, pick) for pick in picks]
            left = desk.state.waiting.left()
        return {"items": items, "left": left, "waiting": views.waiting_sentence(desk, bool(items))}

    @api.get("/grid", responses=MISSING)
    async def grid(
        annotator: Name,
        count: Annotated[int, Query(ge=1, le=64)] = 24,
        label: Annotated[str | None, Query(alias="class", max_length=200)] = None,
    ) -> dict[str, Any]:
        """Items that the model takes for a class, the surest first; without a model, the next ones."""
        guessed = await asyncio.wrap_future(desk.ask_guessed(annotator, label, count))
        if not guessed.groups:
            guessed = guessed._replace(picks=await asyncio.wrap_future(desk.ask(annotator, count)))
        return views.grid_facts(desk, guessed)

    @api.get("/items/{row}", responses=MISSING)
    def item(row: Item) -> dict[str, Any]:
        """One item, with its label."""
        return views.one_item(desk, row)

    @api.get("/items/{row}/picture", response_class=Response, responses=PICTURE)
    async def picture(row: Item, edge: Annotated[int, Query(ge=16, le=LARGEST_EDGE)] = 1024) -> Response:
        """Its picture, no larger than that."""
        desk.check_item(row)
        found = await pictures.show(desk.state.contents, row, edge)
        return Response(found.data, media_type=found.media, headers={"cache-control": "private, max-age=3600"})

    @api.get("/items/{row}/guess", responses=MISSING)
    def guess(row: Item) -> dict[str, Any]:
        """What the model takes it for."""
        return views.guess_of(desk, row)

    @api.get("/map", responses={304: {"description": "You have it."}, **MISSING})
    def whole_map(request: Request) -> Response:
        """Every item as a point."""
        with desk.state.lock:
            n_drawn = 0 if desk.state.places is None else len(desk.state.places)
            tag = f'"{desk.state.version}-{desk.state.round}-{n_drawn}"'
        headers = {"etag": tag, "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return JSONResponse(views.map_facts(desk), headers=headers)

    @api.get("/curve")
    def curve() -> dict[str, Any]:
        """How well the models do."""
        return views.curve_facts(desk)

    @api.get("/review")
    def review(limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        """Labels that the model doubts."""
        return views.review_facts(desk, limit)

    @api.get("/annotators")
    def annotators() -> dict[str, Any]:
        """Who labels, and how far they agree."""
        return views.annotator_facts(desk)

    @api.get("/export", response_class=Response)
    def export(format: Format = "csv", safe: Literal["0", "1"] = "1") -> Response:
        """The labels as a file."""
        found = export_labels(desk.state, format, safe=safe == "1")
        digest = hashlib.blake2b(found.data, digest_size=8).hexdigest()
        headers = {"content-disposition": f'attachment; filename="{found.name}"', "etag": f'"{digest}"'}
        return Response(found.data, media_type=found.media, headers=headers)

    @api.get("/events", response_class=StreamingResponse)
    async def events() -> StreamingResponse:
        """Changes as they come, as server-sent events."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(stream(desk, is_stopping), media_type="text/event-stream", headers=headers)

    return api
