"""Published files: where they are kept, and downloads with checksums."""
