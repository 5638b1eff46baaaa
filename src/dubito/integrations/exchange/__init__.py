"""Picks to the files of labeling tools, and labels back from them; one file a tool, no server needed.

What a tool keeps of an item, it keeps with ``dubito_id`` (or ``dubito_index``, where rows have no ids): labels come
back to the rows they are of, in whatever order.
"""

from dubito.integrations.exchange.answers import Gathered, gather_answers
from dubito.integrations.exchange.items import Item, Said, read_items
from dubito.integrations.exchange.tools import TOOLS, export_picks, import_labels

__all__ = ["TOOLS", "Gathered", "Item", "Said", "export_picks", "gather_answers", "import_labels", "read_items"]
