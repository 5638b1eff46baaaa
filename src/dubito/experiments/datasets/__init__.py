"""Features or images with classes: files, digits, toys, published images; and pools made of them."""
