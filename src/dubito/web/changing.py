"""What the API changes: every answer comes after the commit."""

import asyncio
import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from dubito.errors import InvalidArgument
from dubito.labelling import views
from dubito.labelling.desk import Desk
from dubito.labelling.own import drop_own, keep_own_bytes
from dubito.labelling.spoken import Spoken
from dubito.web.bodies import (
    Changes,
    GivenLabel,
    LabelAnswer,
    ManyLabels,
    NewClass,
    OneLabel,
    Refusal,
    Release,
    Restriction,
    Undo,
)

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


def changing(desk: Desk) -> APIRouter:
    """Routes that change something."""
    api = APIRouter(prefix="/api")

    @api.post("/labels", status_code=201, response_model=LabelAnswer, responses=LABELLED)
    async def label(body: OneLabel) -> Response:
        """A label, or a skip."""
        (kept,) = await asyncio.wrap_future(desk.answer([_answer(body, body.annotator)]))
        facts = {"event": kept.event.number, "labelled": kept.labelled}
        return JSONResponse(facts, status_code=201 if kept.is_new else 200)

    @api.post("/labels/many", status_code=201, responses=LABELLED)
    async def labels(body: ManyLabels) -> Response:
        """Many at once, all or nothing."""
        kept = await asyncio.wrap_future(desk.answer([_answer(each, body.annotator) for each in body.labels]))
        facts = {"events": [each.event.number for each in kept], "labelled": kept[-1].labelled}
        return JSONResponse(facts, status_code=201 if any(each.is_new for each in kept) else 200)

    @api.post("/undo", responses={409: {"model": Refusal}})
    async def undo(body: Undo) -> dict[str, Any]:
        """The last answer taken back."""
        kept = await asyncio.wrap_future(desk.undo(body.key, body.annotator))
        item = kept.event.item
        return {"event": kept.event.number, "row": item, "item": views.one_item(desk, item), "labelled": kept.labelled}

    @api.post("/classes", status_code=201, responses=ADDED)
    async def add_class(body: NewClass) -> Response:
        """A class more."""
        is_new = await asyncio.wrap_future(desk.add_class(body.name, body.key))
        return JSONResponse({"classes": views.project_facts(desk)["classes"]}, status_code=201 if is_new else 200)

    @api.patch("/project")
    async def change(body: Changes) -> dict[str, Any]:
        """Other guidelines or settings."""
        given = body.model_dump(exclude={"guidelines"}, exclude_none=True)
        await asyncio.wrap_future(desk.change(body.guidelines, given))
        return views.project_facts(desk)

    @api.post("/restrict", responses={404: {"model": Refusal}})
    async def restrict(body: Restriction) -> dict[str, int]:
        """What may be asked for."""
        return {"candidates": await asyncio.wrap_future(desk.restrict(body.mode, body.rows))}

    @api.post("/round", status_code=202)
    async def ask_round() -> dict[str, int]:
        """Fit and pick now."""
        desk.loop.ask()
        return {"round": desk.state.round + 1}

    @api.post("/release", openapi_extra=_described(Release))
    async def release(request: Request) -> dict[str, int]:
        """What this person holds is given back; a page that closes says it as plain text."""
        given = await asyncio.wrap_future(desk.release(_read_release(await request.body()).annotator))
        return {"released": given}

    @api.put("/probabilities", openapi_extra=UPLOAD)
    async def put_probabilities(request: Request) -> dict[str, int]:
        """Probabilities of your own model (.npz, .parquet or .csv) in the place of dubito's."""
        data = await request.body()
        state = desk.state
        rows = await run_in_threadpool(keep_own_bytes, state.project, state.contents, data)
        desk.loop.ask()
        return {"rows": rows}

    @api.delete("/probabilities")
    async def delete_probabilities() -> dict[str, bool]:
        """Back to dubito's own model."""
        drop_own(desk.state.project)
        desk.loop.ask()
        return {"own": False}

    return api


def _answer(said: GivenLabel, annotator: str) -> Spoken:
    return Spoken(said.key, annotator, said.row, said.label, said.guess_seen, said.seconds, said.review)


def _read_release(body: bytes) -> Release:
    try:
        return Release.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError):
        raise InvalidArgument("that says not who has gone", mend='send {"annotator": "..."}.') from None


def _described(model: type[Release]) -> dict[str, Any]:
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}
