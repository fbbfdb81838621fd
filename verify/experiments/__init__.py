"""Training runs on disk: settings, checkpoints, curves."""
