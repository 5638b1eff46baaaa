"""The labeling page and its server: an API over a `LabelingService`, for this machine alone by default."""
