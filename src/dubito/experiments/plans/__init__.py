"""An experiment out of a TOML file, and those that come with the package."""
