"""Labeling projects: the project folder, the event log of labels, and training and selection in the background.

The web server calls `LabelingService`, which assigns items, stores labels, and has a worker process fit and select.
"""
