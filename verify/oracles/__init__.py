"""Second answers, written independently of `constructions` and never importing it."""
