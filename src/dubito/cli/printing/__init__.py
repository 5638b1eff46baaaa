"""What a person sees: messages, bars, tables of progress, and errors in one line."""
