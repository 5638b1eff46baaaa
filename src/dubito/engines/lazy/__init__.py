"""The exact lazy block algorithm, whatever machine its kernels run on."""
