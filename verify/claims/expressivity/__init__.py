"""Section 2 and Appendix B: what the constructed transformer computes."""
