"""The labeling page and its server, an HTTP API for a `LabelingService`; by default only for this machine."""
