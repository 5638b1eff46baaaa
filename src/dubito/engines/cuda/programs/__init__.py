"""Triton programs of the engine `cuda`; its interpreter also runs them on a CPU."""
