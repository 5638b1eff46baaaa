"""The kernels of the engine `cuda`: Triton, which its interpreter can also run on a CPU, and CUDA C in `block/`."""
