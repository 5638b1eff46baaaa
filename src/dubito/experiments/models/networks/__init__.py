"""Networks of torch: how they are trained, and which are refused."""
