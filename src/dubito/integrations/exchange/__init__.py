"""Picks to the files of labeling tools, and labels back from them; no server needed.

Every item carries ``dubito_id`` (or ``dubito_index`` if the rows have no ids), by which labels find their rows again.
"""

from dubito.integrations.exchange.formats import TOOLS, export_picks, import_labels
from dubito.integrations.exchange.items import Answer, Gathered, Item, gather_answers, read_items

__all__ = ["TOOLS", "Answer", "Gathered", "Item", "export_picks", "gather_answers", "import_labels", "read_items"]
