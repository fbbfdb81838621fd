"""Section 3 and Appendix H: the smoothed minimum."""
