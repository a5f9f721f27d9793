"""Host half: the model definition, presets, checkpoints and training. Needs torch."""
