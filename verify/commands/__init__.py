"""The commands of `leanlloyd`, one module a group."""
