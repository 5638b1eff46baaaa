"""Tokens of Label Studio: the older kind as it is, a personal one traded for access that lasts a few minutes."""

import base64
import json
import os
from collections.abc import Callable
from typing import Any

from dubito.errors import InvalidArgument, MissingFile

VARIABLE = "LABEL_STUDIO_API_KEY"
"""Where the token is looked for, as Label Studio's own tools do."""
LONGEST = 4096
REFRESH = "/api/token/refresh/"

Post = Callable[[str, object], Any]
"""Sends a body to a path without any token, and gives the answer back."""


class AccessToken:
    """A token, and the header made of it. It shows itself nowhere.

    Examples
    --------
    >>> token = AccessToken("0123abcd")
    >>> token
    AccessToken(legacy)
    >>> token.header(lambda path, body: {})
    'Token 0123abcd'
    """

    def __init__(self, text: str) -> None:
        text = text.strip()
        if not text or len(text) > LONGEST or not text.isascii() or any(letter.isspace() for letter in text):
            mend = "copy it from Account & Settings of Label Studio, whole and alone."
            raise InvalidArgument("the token of Label Studio is empty, or is no token", mend=mend)
        self._text = text
        self.kind = _kind(text)
        self._access: str | None = text if self.kind == "access" else None

    @property
    def can_renew(self) -> bool:
        """Whether access that has run out can be had again."""
        return self.kind == "personal"

    def header(self, post: Post) -> str:
        """The value of ``Authorization``; a personal token is traded first, where that is still to be done."""
        if self.kind == "legacy":
            return f"Token {self._text}"
        if self._access is None:
            answer = post(REFRESH, {"refresh": self._text})
            self._access = str(answer["access"])
        return f"Bearer {self._access}"

    def forget_access(self) -> None:
        """Access has run out: the next header asks for it again."""
        self._access = None

    def __repr__(self) -> str:
        return f"AccessToken({self.kind})"


def read_token(path: str | None = None) -> AccessToken:
    """The token in a file, or in the variable LABEL_STUDIO_API_KEY; never on a command line, which others can read."""
    if path is None:
        found = os.environ.get(VARIABLE, "")
        if not found.strip():
            mend = f"set {VARIABLE} to it, or pass --token-file FILE."
            raise InvalidArgument("there is no token for Label Studio", mend=mend)
        return AccessToken(found)
    try:
        with open(path, encoding="utf-8") as file:
            return AccessToken(file.read(LONGEST + 2))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise MissingFile(f"{path}, which should hold the token, cannot be read ({reason})", mend="name it.") from None


def _kind(text: str) -> str:
    """``legacy``, ``personal`` (a refresh token) or ``access``, by what a JSON web token says of itself."""
    parts = text.split(".")
    if len(parts) != 3:
        return "legacy"
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return "legacy"
    return "access" if isinstance(claims, dict) and claims.get("token_type") == "access" else "personal"
