"""The one page that everybody may see: it asks for the token, and tells nothing of the project."""

from urllib.parse import parse_qs, quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from dubito.web.guard import Guard, cookie_name


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
