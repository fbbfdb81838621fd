"""The machine-checked core: Coq proofs, the record of their last build, and the check that reads
it. `docs/theory/machine-checked.md` is the reader's guide."""
