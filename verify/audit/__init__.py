"""What the theory says about one data set of the user: `leanlloyd audit` (docs/audit.md).

reading, starting   input: files, data sets, scaling, initial centers
survey              exact margins, ties, empty clusters, what float32 and float64 can decide
beside              the exact transformer beside Lloyd, and why they part
finite              the certificate at a finite inverse temperature
gaps                how far the regularized loss is above the k-means loss
report              all of it as one JSON-able dictionary
text, figure        that dictionary for people; they compute nothing
"""
