"""Networks of torch: how they are trained, which are refused, and VGG16."""
