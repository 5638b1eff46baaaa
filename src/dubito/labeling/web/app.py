"""The ASGI application: the API of a labeling service and the page, protected by the guard."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dubito.errors import DubitoError, InvalidData, MissingFile
from dubito.labeling.database import StoreFailed, StoreUnavailable
from dubito.labeling.decoder import DecoderUnavailable, UndisplayablePicture
from dubito.labeling.pictures import Pictures
from dubito.labeling.service import Conflict, LabelingService
from dubito.labeling.thumbnails import FOLDER as THUMBNAILS
from dubito.labeling.thumbnails import ThumbnailCache
from dubito.labeling.web.guard import Guard, cookie_name
from dubito.labeling.web.limits import Limits, TooManyGuesses
from dubito.labeling.web.routes import read_routes, write_routes

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (UndisplayablePicture, 415),
    (Conflict, 409),
    (StoreUnavailable, 503),
    (DecoderUnavailable, 503),
    (StoreFailed, 507),
    (MissingFile, 404),
    (InvalidData, 422),
    (DubitoError, 422),
)

log = logging.getLogger("dubito.labeling.web")


def read_page() -> dict[str, tuple[bytes, str]]:
    """The files of the page by name, with their media types; no other file is served from disk."""
    page = {}
    for file in files("dubito.labeling.web").joinpath("page").iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if file.is_file() and suffix in MEDIA_TYPES:
            page[file.name] = file.read_bytes(), MEDIA_TYPES[suffix]
    return page


def make_app(
    service: LabelingService,
    token: str,
    hosts: set[str] | None = None,
    public: str | None = None,
    is_stopping: asyncio.Event | None = None,
    limits: Limits | None = None,
) -> Guard:
    """An ASGI application for a service.

    Parameters
    ----------
    service : LabelingService
        Started and closed with the application.
    token : str
        The secret that every user needs.
    hosts : set of str, optional
        Host names of the server in addition to localhost.
    public : str, optional
        The public origin of a reverse proxy in front of this server.
    is_stopping : asyncio.Event, optional
        Set to end the event streams.
    limits : Limits, optional
        Limits on wrong tokens.
    """
    is_stopping = is_stopping or asyncio.Event()
    pictures = Pictures(ThumbnailCache(service.state.project.path(THUMBNAILS)))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        is_stopping.set()
        await asyncio.to_thread(pictures.close)
        await asyncio.to_thread(service.close)

    app = FastAPI(title="dubito label", version="1", lifespan=lifespan, docs_url=None, redoc_url=None)
    guard = Guard(app, token, {"localhost", *(hosts or ())}, public, limits)
    app.include_router(read_routes(service, pictures, is_stopping))
    app.include_router(write_routes(service))
    _add_page(app, guard)
    _add_errors(app)
    return guard


def _add_page(app: FastAPI, guard: Guard) -> None:
    page = read_page()
    form = page["sign-in.html"][0]

    def sign_in(request: Request, token: str) -> Response:
        """Redirect to the page and set the cookie, or show the form again with its error message."""
        if not guard.is_authorized(request.scope, [token]):
            return HTMLResponse(form.replace(b" hidden", b""), status_code=403)
        response = RedirectResponse("/", status_code=303)
        is_tls = request.url.scheme == "https" or guard.is_tls
        name = cookie_name(request.url.port)
        response.set_cookie(name, quote(token, safe=""), httponly=True, samesite="strict", path="/", secure=is_tls)
        return response

    @app.get("/", include_in_schema=False)
    async def home(request: Request, token: str | None = None) -> Response:
        if token is not None:
            return sign_in(request, token)
        return _page_response(page, "index.html", request) if request.state.is_signed_in else HTMLResponse(form)

    @app.post("/sign-in", include_in_schema=False)
    async def submit_token(request: Request) -> Response:
        submitted = parse_qs((await request.body()).decode("utf-8", "replace"))
        return sign_in(request, submitted.get("token", [""])[0].strip())

    @app.get("/page/{name}", include_in_schema=False)
    def page_file(name: str, request: Request) -> Response:
        return _page_response(page, name, request)


def _page_response(page: dict[str, tuple[bytes, str]], name: str, request: Request) -> Response:
    if name not in page:
        return JSONResponse({"error": "There is no such file of the page."}, status_code=404)
    data, media = page[name]
    headers = {"cache-control": "no-cache", "etag": f'"{hashlib.blake2b(data, digest_size=8).hexdigest()}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media, headers=headers)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(DubitoError)
    async def handle_dubito_error(request: Request, error: DubitoError) -> Response:
        status = next(status for kind, status in STATUSES if isinstance(error, kind))
        headers = {"retry-after": "1"} if status == 503 else None
        return JSONResponse({"error": _sentence(str(error))}, status_code=status, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def handle_invalid_request(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"error": _validation_message(error.errors())}, status_code=422)

    @app.exception_handler(HTTPException)
    async def handle_http_error(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": f"{error.detail}."}, status_code=error.status_code, headers=error.headers)

    @app.exception_handler(TooManyGuesses)
    async def handle_too_many_guesses(request: Request, error: TooManyGuesses) -> Response:
        return JSONResponse({"error": str(error)}, status_code=429, headers={"retry-after": str(error.seconds)})

    @app.exception_handler(ClientDisconnect)
    async def handle_disconnect(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # Nobody receives this.

    @app.exception_handler(Exception)
    async def handle_unexpected(request: Request, error: Exception) -> Response:
        log.exception("unexpected error")
        return JSONResponse({"error": "Something went wrong; what was saved is kept."}, status_code=500)


def _sentence(text: str) -> str:
    """Format a message as a sentence; the first word is capitalized unless it is a file name or path."""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    first_word = line.split(" ", 1)[0].rstrip(",:;")
    capitalized = line[:1].upper() + line[1:] if first_word.isalpha() else line
    return capitalized + ("" if line.endswith((".", "?", "!")) else ".")


def _validation_message(problems: Any) -> str:
    """Describe the first validation error, without the submitted value."""
    first = problems[0]
    location = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    location = location.encode("utf-8", "replace").decode()[:100]
    return _sentence(f"{location or 'the request'}: {first['msg']}")
