"""Labeling by people: a project folder, a store of label events, and the loop that learns and picks beside them.

`LabelingService` is what the web server calls: it hands out items, takes labels, and has a worker process fit and pick.
"""
