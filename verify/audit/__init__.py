"""What the theory says about one data set of the user: `leanlloyd audit` (docs/audit.md).

reading, starting   input: files, data sets, scaling, initial centers
survey              exact margins, ties, empty clusters, what float32 and float64 can decide
beside              the exact transformer beside Lloyd, and why they part
finite              the certificate at a finite inverse temperature
gaps                how far the regularized loss is above the k-means loss
report              all of it as one JSON-able dictionary
text, figure        that dictionary for people; they compute nothing
"""

from __future__ import annotations

from typing import Any


def audit(data: Any, k: int, **options: Any) -> dict[str, Any]:
    """What `leanlloyd audit --json` prints, for data in memory.

    Parameters
    ----------
    data : (n, d) array (numpy, torch), data frame (pandas, polars, pyarrow), or nested list
    k : number of clusters
    options : fields of `verify.audit.report.Options` (steps, codes, epsilon, gamma, temperatures,
        init, scale, seed) and of `verify.audit.columns.How` (columns, drop, missing, values)

    Raises
    ------
    InputError
        the data or an option cannot be used; the message says what is allowed.
    TypeError
        there is no such option.
    """
    from dataclasses import fields

    from constructions import InputError
    from verify.audit import report
    from verify.audit.columns import How
    from verify.audit.reading import read_frame
    from verify.console import CommandError

    reading = {f.name: options.pop(f.name) for f in fields(How) if f.name in options}
    try:
        asked = report.Options(k=k, **options)
        return report.audit(read_frame(data, How(**reading)), asked)
    except CommandError as error:
        raise InputError(error.message) from None
