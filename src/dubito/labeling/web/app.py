"""The ASGI application: the API of a service, the page, and the guard around both."""

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
from dubito.labeling.decoder import PicturesBusy, Unshowable
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
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".json": "application/json",
}
FORM = b"""<!doctype html><html lang="en"><title>dubito</title><p hidden>That is not the token.</p>
<form method="post" action="/sign-in"><label>Token <input name="token" type="password"></label><button>Sign in</button>
</form></html>"""
"""Sign-in page to use if the package has none."""
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (Unshowable, 415),
    (Conflict, 409),
    (StoreUnavailable, 503),
    (PicturesBusy, 503),
    (StoreFailed, 507),
    (MissingFile, 404),
    (InvalidData, 422),
    (DubitoError, 422),
)

log = logging.getLogger("dubito.labeling.web")


def read_page() -> dict[str, tuple[bytes, str]]:
    """The files of the page by name, with their media types; no other file is served from disk."""
    folder = files("dubito.labeling.web").joinpath("page")
    found = {"sign-in.html": (FORM, MEDIA_TYPES[".html"])}
    for entry in folder.iterdir() if folder.is_dir() else ():
        suffix = "." + entry.name.rpartition(".")[2]
        if entry.is_file() and suffix in MEDIA_TYPES:
            found[entry.name] = entry.read_bytes(), MEDIA_TYPES[suffix]
    return found


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

    @app.get("/", include_in_schema=False)
    async def home(request: Request, token: str | None = None) -> Response:
        if token is not None:
            is_authorized = guard.is_authorized(request.scope, [token])
            return sign_in_response(request, token, guard) if is_authorized else sign_in_form(form, is_wrong=True)
        return _page_response(page, "index.html", request) if request.state.is_signed_in else sign_in_form(form)

    @app.post("/sign-in", include_in_schema=False)
    async def submit_token(request: Request) -> Response:
        return await sign_in(request, guard, form)

    @app.get("/page/{name}", include_in_schema=False)
    def page_file(name: str, request: Request) -> Response:
        return _page_response(page, name, request)


def sign_in_form(page: bytes, *, is_wrong: bool = False) -> Response:
    """The page that asks for the token; its error message is hidden unless the token was wrong."""
    return HTMLResponse(page.replace(b" hidden", b"") if is_wrong else page, status_code=403 if is_wrong else 200)


def sign_in_response(request: Request, token: str, guard: Guard) -> Response:
    """Redirect to the page and set the cookie."""
    response = RedirectResponse("/", status_code=303)
    is_tls = request.url.scheme == "https" or guard.is_tls
    name = cookie_name(request.url.port)
    response.set_cookie(name, quote(token, safe=""), httponly=True, samesite="strict", path="/", secure=is_tls)
    return response


async def sign_in(request: Request, guard: Guard, page: bytes) -> Response:
    """Handle the submitted form."""
    found = parse_qs((await request.body()).decode("utf-8", "replace"))
    token = found.get("token", [""])[0].strip()
    is_authorized = guard.is_authorized(request.scope, [token])
    return sign_in_response(request, token, guard) if is_authorized else sign_in_form(page, is_wrong=True)


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
    async def handle_guesses(request: Request, error: TooManyGuesses) -> Response:
        return JSONResponse({"error": str(error)}, status_code=429, headers={"retry-after": str(error.seconds)})

    @app.exception_handler(ClientDisconnect)
    async def handle_disconnect(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # The client is gone; nobody reads this.

    @app.exception_handler(Exception)
    async def handle_unexpected(request: Request, error: Exception) -> Response:
        log.exception("unexpected error")
        return JSONResponse({"error": "Something went wrong; what was saved is kept."}, status_code=500)


def _sentence(text: str) -> str:
    """Format a message as a sentence; the first word is capitalized unless it is a file name or path."""
    plain = " ".join(text.encode("utf-8", "replace").decode().split())
    first = plain.split(" ", 1)[0].rstrip(",:;")
    capitalized = plain[:1].upper() + plain[1:] if first.isalpha() else plain
    return capitalized + ("" if plain.endswith((".", "?", "!")) else ".")


def _validation_message(problems: Any) -> str:
    """Describe the first validation error, without the submitted value."""
    first = problems[0]
    location = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    location = location.encode("utf-8", "replace").decode()[:100]
    return _sentence(f"{location or 'the request'}: {first['msg']}")
