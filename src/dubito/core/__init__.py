"""What is computed: the problem, distances, and the reference algorithms that every engine is compared with."""
