"""Not in the paper: one implementation, and the same answer in every number system."""
