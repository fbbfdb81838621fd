"""The documents the claims were taken from, and where they contradict each other.

The paper's full text was not available. The claims were taken from two documents about it, so
every statement is a reconstruction, and a place where the two differ is a row of the report.
"""

from __future__ import annotations

from verify.collection import Conflict

PAPER = (
    "C. Park, K. L. Clarkson, L. Horesh, T. Ito, P. Ram: Leaner Transformers Can Easily Learn to "
    "Cluster. arXiv:2610.09760, 2026"
)

DOCUMENTS = {
    "summary": "a source-linked summary of the paper, in English, with page numbers",
    "review": "a review of the paper, in Chinese, with formulas and tables",
    "beyond": "not in the paper: a question its claims raise",
}


def _conflict(topic: str, summary: str, review: str, claims: tuple[str, ...] = ()) -> Conflict:
    return Conflict(topic, {"summary": summary, "review": review}, claims)


CONFLICTS = (
    _conflict(
        "upper or lower bound",
        "App. H, p. 32: the smoothed objective is an upper bound of the clustering loss",
        'design 3: calls it a "variational lower-bound surrogate", and speaks of an upper-bound '
        "gap two lines on",
        ("surrogate-upper-bound",),
    ),
    _conflict(
        "which scaling keeps the k-means problem",
        "App. D, p. 22: shift by the minimum of each dimension, then divide by the largest shifted "
        "value (one common factor); p. 21 names MinMaxScaler, which has a factor per dimension",
        "silent",
        ("kmeans-invariance",),
    ),
    _conflict(
        "growth of the entropy gap with k",
        "App. H, p. 33: compares distances between weights",
        "design 3: the gap of the entropy surrogate grows with sqrt(2 log k)",
        ("sharp-gap-ne", "ne-gap-sqrt-log"),
    ),
    _conflict(
        "is the smoothed loss differentiable",
        "App. H, p. 32: the L2 regularizer yields a differentiable upper bound; App. A, p. 18: "
        "sparsemax is only differentiable almost everywhere",
        "design 3: a differentiable smooth surrogate",
        ("l2-differentiable",),
    ),
    _conflict(
        "squared length of the binary embedding",
        "App. I, pp. 46-47: d_E is the embedding norm of the initial centers",
        "theorem 3.1: d_E = d_emb = d + ceil(log2 k) for the binary code",
        ("embedding-norm",),
    ),
    _conflict(
        "L2 at d = 4, temperature 1",
        "App. F, p. 26: learns somewhat but never matches one Lloyd iteration",
        "ablation table: relative validation loss below 1.0",
        ("learn-tau-1",),
    ),
    _conflict(
        "are the extra dimensions necessary",
        "App. A, p. 17: theoretically unresolved",
        "ablation table: confirms that the extra embedding dimensions are necessary",
        ("p0-impossible", "learn-code-needed"),
    ),
    _conflict(
        "why Cauchy tasks fail",
        "p. 9, pp. 17-18: a hypothesis, and an open question",
        "key finding 3: states that the gap is an order of magnitude larger",
        ("cauchy-gap",),
    ),
    _conflict(
        "d_E times or over the root of d_emb",
        'App. I, pp. 46-47: "dE sqrt(demb)" recurs in the bound',
        "theorem 3.1: d_E / sqrt(d_emb)",
        ("thm-3.1",),
    ),
)
