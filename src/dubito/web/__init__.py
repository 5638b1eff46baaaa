"""The labelling page and its server: an API over a `Desk`, for this machine alone unless told otherwise."""
