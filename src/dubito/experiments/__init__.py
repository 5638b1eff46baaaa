"""Active learning replayed on data whose classes are known: experiments, their records, and what they show."""
