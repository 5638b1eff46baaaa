"""The engine `cuda`: whole fronts at once on an NVIDIA GPU. Nothing here but `engine` may be imported without torch."""
