"""Label Studio over HTTP: picks to a project of its server, labels back, and both round after round.

The server is the truth: what it holds is looked up by ``dubito_id`` before anything is sent, so that a call may be
repeated, or killed and repeated, and nothing is lost or doubled.
"""

from dubito.studio.picking import PoolPicker, Suggestion
from dubito.studio.projects import StudioProject, find_project
from dubito.studio.pulling import pull
from dubito.studio.pushing import push
from dubito.studio.server import Patience, Server
from dubito.studio.tokens import AccessToken
from dubito.studio.watching import watch

__all__ = [
    "AccessToken",
    "Patience",
    "PoolPicker",
    "Server",
    "StudioProject",
    "Suggestion",
    "find_project",
    "pull",
    "push",
    "watch",
]
