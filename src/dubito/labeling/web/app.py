"""The application: a service's API, the page, and the guard before both."""

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
from dubito.labeling.web.routes import changing, reading

# The one page that everybody may see: it asks for the token, and tells nothing of the project.


def asking(page: bytes, *, is_wrong: bool = False) -> Response:
    """The page; a sentence in it is hidden unless the token was wrong."""
    return HTMLResponse(page.replace(b" hidden", b"") if is_wrong else page, status_code=403 if is_wrong else 200)


def signed_in(request: Request, token: str, guard: Guard) -> Response:
    """To the page, with a cookie."""
    response = RedirectResponse("/", status_code=303)
    is_tls = request.url.scheme == "https" or guard.is_tls
    name = cookie_name(request.url.port)
    response.set_cookie(name, quote(token, safe=""), httponly=True, samesite="strict", path="/", secure=is_tls)
    return response


async def sign_in(request: Request, guard: Guard, page: bytes) -> Response:
    """The form."""
    found = parse_qs((await request.body()).decode("utf-8", "replace"))
    token = found.get("token", [""])[0].strip()
    return signed_in(request, token, guard) if guard.is_right(request.scope, [token]) else asking(page, is_wrong=True)


KINDS = {
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
"""The sign-in page where there is no other."""
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
    """The page's own files, by name: nothing but these is ever served from a disk."""
    folder = files("dubito.labeling.web").joinpath("page")
    found = {"sign-in.html": (FORM, KINDS[".html"])}
    for entry in folder.iterdir() if folder.is_dir() else ():
        suffix = "." + entry.name.rpartition(".")[2]
        if entry.is_file() and suffix in KINDS:
            found[entry.name] = entry.read_bytes(), KINDS[suffix]
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
        What a person must have.
    hosts : set of str, optional
        Names of the server besides localhost.
    public : str, optional
        The origin under which another server passes requests on to this one.
    is_stopping : asyncio.Event, optional
        Set when event streams are to end.
    limits : Limits, optional
        How many wrong tokens are taken.
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
    app.include_router(reading(service, pictures, is_stopping))
    app.include_router(changing(service))
    _add_page(app, guard)
    _add_errors(app)
    return guard


def _add_page(app: FastAPI, guard: Guard) -> None:
    page = read_page()
    form = page["sign-in.html"][0]

    @app.get("/", include_in_schema=False)
    async def home(request: Request, token: str | None = None) -> Response:
        if token is not None:
            is_right = guard.is_right(request.scope, [token])
            return signed_in(request, token, guard) if is_right else asking(form, is_wrong=True)
        return _served(page, "index.html", request) if request.state.is_known else asking(form)

    @app.post("/sign-in", include_in_schema=False)
    async def signing_in(request: Request) -> Response:
        return await sign_in(request, guard, form)

    @app.get("/page/{name}", include_in_schema=False)
    def own_file(name: str, request: Request) -> Response:
        return _served(page, name, request)


def _served(page: dict[str, tuple[bytes, str]], name: str, request: Request) -> Response:
    if name not in page:
        return JSONResponse({"error": "There is no such file of the page."}, status_code=404)
    data, media = page[name]
    headers = {"cache-control": "no-cache", "etag": f'"{hashlib.blake2b(data, digest_size=8).hexdigest()}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media, headers=headers)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(DubitoError)
    async def refused(request: Request, error: DubitoError) -> Response:
        status = next(status for kind, status in STATUSES if isinstance(error, kind))
        headers = {"retry-after": "1"} if status == 503 else None
        return JSONResponse({"error": _sentence(str(error))}, status_code=status, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"error": _reported(error.errors())}, status_code=422)

    @app.exception_handler(HTTPException)
    async def known(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": f"{error.detail}."}, status_code=error.status_code, headers=error.headers)

    @app.exception_handler(TooManyGuesses)
    async def guessing(request: Request, error: TooManyGuesses) -> Response:
        return JSONResponse({"error": str(error)}, status_code=429, headers={"retry-after": str(error.seconds)})

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # Nobody is there to read it.

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        log.exception("an error that nobody expected")
        return JSONResponse({"error": "Something went wrong; what was saved is kept."}, status_code=500)


def _sentence(text: str) -> str:
    """With a capital where it begins with a word: a file's name or a path stays as it is."""
    plain = " ".join(text.encode("utf-8", "replace").decode().split())
    first = plain.split(" ", 1)[0].rstrip(",:;")
    begins = plain[:1].upper() + plain[1:] if first.isalpha() else plain
    return begins + ("" if plain.endswith((".", "?", "!")) else ".")


def _reported(problems: Any) -> str:
    """The first of what is wrong, without what was sent."""
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    place = place.encode("utf-8", "replace").decode()[:100]
    return _sentence(f"{place or 'the request'}: {first['msg']}")
