"""Integrations with other tools, each imported only when it is used."""
