"""From names on the command line to what the library takes."""
