"""The engine `cuda`: core-sets and coverage on an NVIDIA GPU.

Only the modules named `engine` can be imported without torch.
"""
