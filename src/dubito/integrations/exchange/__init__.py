"""Files of labeling tools: write picks for them, and read labels from them.

Every item has a ``dubito_id`` (or ``dubito_index`` if the rows have no ids), by which labels are matched with rows.
"""

from dubito.integrations.exchange.formats import TOOLS, export_picks, import_labels
from dubito.integrations.exchange.items import Answer, Gathered, Item, gather_answers, read_items

__all__ = ["TOOLS", "Answer", "Gathered", "Item", "export_picks", "gather_answers", "import_labels", "read_items"]
