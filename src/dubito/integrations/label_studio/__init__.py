"""Client of a Label Studio server: send picks to a project, get labels back, and repeat in rounds.

The server is the only store: items are looked up by their ``dubito_id`` before anything is sent, so that a call can be
repeated, even after a kill, without losing or duplicating items.
"""

from dubito.integrations.label_studio.client import AccessToken, RetryPolicy, Server
from dubito.integrations.label_studio.picking import PoolPicker, Suggestion
from dubito.integrations.label_studio.projects import LabelStudioProject, find_project, pull
from dubito.integrations.label_studio.pushing import push
from dubito.integrations.label_studio.watching import watch

__all__ = [
    "AccessToken",
    "LabelStudioProject",
    "PoolPicker",
    "RetryPolicy",
    "Server",
    "Suggestion",
    "find_project",
    "pull",
    "push",
    "watch",
]
