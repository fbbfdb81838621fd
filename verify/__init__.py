"""Claims of the paper, checked: what each says, how its worst case is sought, what was found."""

__version__ = "0.1.0"
