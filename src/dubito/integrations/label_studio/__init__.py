"""Label Studio over HTTP: picks to a project of its server, labels back, and both round after round.

The server is the truth: what it holds is looked up by ``dubito_id`` before anything is sent, so that a call may be
repeated, or killed and repeated, and nothing is lost or doubled.
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
