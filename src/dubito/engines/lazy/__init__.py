"""The exact lazy block algorithm, independent of the device of its kernels."""
