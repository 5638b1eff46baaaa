"""Reports out of records and plots: one HTML page that needs nothing else, and the numbers as JSON."""

from dubito.reports.about import About, shown_facts
from dubito.reports.page import render_report
from dubito.reports.sheet import Sheet, render_sheet
from dubito.reports.writing import Written, write_report

__all__ = ["About", "Sheet", "Written", "render_report", "render_sheet", "shown_facts", "write_report"]
