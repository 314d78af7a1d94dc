"""Settings and numbers that the paper prints, each with its table, figure or section.

Labels are those of "Enforcing Fair Predicted Scores on Intervals of Percentiles by Difference-of-Convex
Constraints" (AISTATS 2026). Fairness is ``1 − gap`` with the gap on the absolute scale, as in all tables of
the paper (docs/metrics.md explains how this differs from the paper's definition).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DATASETS = ("a9a", "bank", "law_school")
"""Data sets of the figures; ACS is only in Table 2."""

FIRST_GROUPS: Mapping[str, str] = {"a9a": "Female", "bank": "25-60", "law_school": "White"}
"""The group γ = 1 (Section G.1), on the horizontal axis of Figure 2."""

SEEDS = 5
"""Number of random splits (Section 7.1)."""

N_POINTS = 10
"""|Î| (Section 7.1)."""

OWN_INTERVALS: Mapping[str, tuple[float, float]] = {
    "a9a": (0.05, 0.3),
    "bank": (0.0, 0.25),
    "law_school": (0.7, 1.0),
    "acs_income": (0.2, 0.4),
    "celeba": (0.2, 0.4),
}
"""Intervals of Figures 1 and 12 and Table 2."""

INTERVALS: Mapping[str, tuple[tuple[float, float], ...]] = {
    "a9a": ((0.05, 0.1), (0.05, 0.3), (0.05, 0.5), (0.05, 0.7), (0.05, 0.9)),
    "bank": ((0.0, 0.05), (0.0, 0.25), (0.0, 0.45), (0.0, 0.65), (0.0, 0.85)),
    "law_school": ((0.1, 1.0), (0.3, 1.0), (0.5, 1.0), (0.7, 1.0), (0.9, 1.0)),
    "celeba": ((0.2, 0.4), (0.0, 1.0)),
}
"""Intervals of Figure 9 (Section G.6) and Figure 12 (Section G.9), `OWN_INTERVALS` included."""

NETWORKS: Mapping[str, tuple[tuple[float, float], int]] = {
    "ranks 20-40%, 10 points": ((0.2, 0.4), 10),
    "all ranks, 50 points": ((0.0, 1.0), 50),
    "ranks 20-40%, 50 points": ((0.2, 0.4), 50),
}
"""Settings (i), (ii) and (iii) of Figure 12: the constrained interval and the number of points."""

MAX_GAPS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "pSP": {
        "a9a": (0.28, 0.2, 0.1, 0.05, 0.01),
        "bank": (0.3, 0.22, 0.08, 0.01),
        "law_school": (0.2, 0.15, 0.1, 0.08, 0.005),
        "acs_income": (0.15, 0.1, 0.06, 0.03),
    },
    "pDP": {
        "a9a": (0.15, 0.1, 0.05, 0.03, 0.005),
        "bank": (0.1, 0.07, 0.05, 0.03, 0.01),
        "law_school": (0.15, 0.1, 0.06, 0.04, 0.005),
        "acs_income": (0.15, 0.1, 0.06, 0.03),
    },
}
"""κ of the paper's method (Section G.2.1) by kind of fairness; the paper gives none for ACS."""

BASELINE_MAX_GAPS: Mapping[str, Mapping[str, Mapping[str, tuple[float, ...]]]] = {
    "group-auc": {
        "pSP": {
            "a9a": (0.7, 1, 2, 3.5),
            "bank": (0.1, 0.3, 0.56, 0.7, 1),
            "law_school": (0.5, 0.75, 1.15, 1.8, 2.7),
        },
        "pDP": {
            "a9a": (0.3, 0.4, 0.5, 0.7, 1),
            "bank": (0.06, 0.5, 2.35, 2.62, 3.28, 4),
            "law_school": (1, 3, 4, 5, 6, 10),
        },
    },
    "inter-group": {
        "pSP": {
            "a9a": (1.5, 3, 3.5, 6),
            "bank": (1.5, 1.8, 2, 3),
            "law_school": (0.4, 1.6, 2.4, 4),
        },
        "pDP": {
            "a9a": (0.9, 1.2, 1.5, 2, 2.7),
            "bank": (0.3, 1, 5, 5.4, 6),
            "law_school": (2, 6.5, 8, 9, 10, 15),
        },
    },
    "intra-group": {
        "pSP": {
            "a9a": (3, 5, 8),
            "bank": (2, 3, 4),
            "law_school": (3, 5, 10),
        },
        "pDP": {
            "a9a": (0.7, 1, 1.3, 1.7, 2.2),
            "bank": (0.1, 0.3, 0.42, 0.5, 1, 2.5),
            "law_school": (0.1, 0.8, 2, 3.5, 10),
        },
    },
}
"""κ of the pairwise baselines, by the kind of fairness of the frontier (Section G.3.2)."""

PRICES: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "pSP": {
        "a9a": (0.2, 0.3, 0.37, 1),
        "bank": (0.4, 0.405, 0.41, 1, 1.5),
        "law_school": (0.39, 0.4, 0.5, 0.8, 1.5),
    },
    "pDP": {
        "a9a": (0.13, 0.17, 0.2, 0.23, 1),
        "bank": (0.005, 0.015, 0.018, 0.1, 2),
        "law_school": (0.001, 0.01, 1),
    },
}
"""λ of the regularization method (Section G.4.2)."""

ROBUST: Mapping[str, Mapping[str, float]] = {
    "a9a": {"ours": 0.05, "group-auc": 1.5, "inter-group": 4.6, "intra-group": 4.2, "penalty": 0.37},
    "bank": {"ours": 0.01, "group-auc": 0.7, "inter-group": 3, "intra-group": 2, "penalty": 0.3},
    "law_school": {"ours": 0.005, "group-auc": 2.7, "inter-group": 4, "intra-group": 0.9, "penalty": 0.8},
}
"""κ or λ of each method in Figure 9 (Section G.6)."""

TABLE_1: Mapping[str, tuple[int, int]] = {
    "a9a": (48_842, 123),
    "bank": (41_188, 54),
    "law_school": (20_798, 12),
    "acs_income": (1_664_500, 813),
}
"""Numbers of instances and attributes by data set."""


@dataclass(frozen=True)
class Printed:
    """A row of a table: a model's fairness and accuracy on the test rows.

    Attributes
    ----------
    fairness, accuracy
        The printed values.
    max_gap
        κ, or None if the paper gives none and for the unconstrained model.
    """

    fairness: float
    accuracy: float
    max_gap: float | None = None


def _rows(*pairs: tuple[float, float]) -> tuple[Printed, ...]:
    return tuple(Printed(fairness, accuracy) for fairness, accuracy in pairs)


TABLE_2: Mapping[str, tuple[Printed, ...]] = {
    "ours": _rows((0.7748, 0.7986), (0.8660, 0.8100), (0.9090, 0.8068), (0.9357, 0.8043), (0.9669, 0.8001)),
    "group-auc": _rows(
        (0.7748, 0.7986), (0.8078, 0.7931), (0.8414, 0.7927), (0.9188, 0.7866), (0.9362, 0.6667)
    ),
    "inter-group": _rows(
        (0.7748, 0.7986), (0.8163, 0.7931), (0.8410, 0.7922), (0.8821, 0.7466), (0.8685, 0.6322)
    ),
    "intra-group": _rows(
        (0.7748, 0.7986), (0.7398, 0.7920), (0.7026, 0.7902), (0.6624, 0.7848), (0.5772, 0.7648)
    ),
}
"""ACS, ranks 20 to 40%; the first entry of each method is the unconstrained model."""

TABLE_3: Mapping[str, tuple[Printed, ...]] = {
    "a9a": _rows(
        (0.5970, 0.8499),
        (0.6937, 0.8501),
        (0.7799, 0.8485),
        (0.8873, 0.8440),
        (0.9326, 0.8384),
        (0.9742, 0.8322),
    ),
    "bank": _rows((0.4366, 0.9015), (0.6451, 0.8957), (0.7999, 0.8954), (0.8456, 0.8959), (0.9356, 0.8941)),
    "law_school": _rows(
        (0.5397, 0.9004),
        (0.5833, 0.8975),
        (0.6976, 0.8903),
        (0.7855, 0.8892),
        (0.8736, 0.8896),
        (0.9615, 0.8881),
    ),
}
"""Full statistical parity, I = [0, 1]; the column of partial parity is that of Table 4 with ten points."""

TABLE_4: Mapping[str, Mapping[int, tuple[Printed, ...]]] = {
    "a9a": {
        20: (
            Printed(0.5970, 0.8499),
            Printed(0.6964, 0.8491, 0.28),
            Printed(0.7819, 0.8481, 0.2),
            Printed(0.8751, 0.8446, 0.1),
            Printed(0.9328, 0.8387, 0.05),
            Printed(0.9703, 0.8325, 0.01),
        ),
        10: (
            Printed(0.5970, 0.8499),
            Printed(0.7017, 0.8492, 0.28),
            Printed(0.7841, 0.8479, 0.2),
            Printed(0.8732, 0.8445, 0.1),
            Printed(0.9310, 0.8393, 0.05),
            Printed(0.9752, 0.8311, 0.01),
        ),
    },
    "bank": {
        20: (
            Printed(0.4366, 0.9015),
            Printed(0.6620, 0.9026, 0.3),
            Printed(0.7211, 0.9030, 0.22),
            Printed(0.8683, 0.9025, 0.08),
            Printed(0.9483, 0.8985, 0.01),
        ),
        10: (
            Printed(0.4366, 0.9015),
            Printed(0.6582, 0.9027, 0.3),
            Printed(0.7376, 0.9028, 0.22),
            Printed(0.8954, 0.9025, 0.08),
            Printed(0.9634, 0.8983, 0.01),
        ),
    },
    "law_school": {
        20: (
            Printed(0.5397, 0.9004),
            Printed(0.6360, 0.8980, 0.2),
            Printed(0.7165, 0.8929, 0.15),
            Printed(0.7841, 0.8922, 0.1),
            Printed(0.8683, 0.8932, 0.08),
            Printed(0.9625, 0.8910, 0.005),
        ),
        10: (
            Printed(0.5397, 0.9004),
            Printed(0.6038, 0.8996, 0.2),
            Printed(0.6956, 0.8937, 0.15),
            Printed(0.7825, 0.8913, 0.1),
            Printed(0.8479, 0.8927, 0.08),
            Printed(0.9563, 0.8909, 0.005),
        ),
    },
}
"""By data set and number of points |Î|."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about its experiments."""

    name: str
    where: str
    sentence: str


CLAIMS = (
    Claim(
        "frontier-psp",
        "Section 7.1, Figure 1",
        "On all three datasets, our method achieves a higher accuracy than all the baselines at all levels "
        "of fairness (pSP).",
    ),
    Claim(
        "frontier-pdp-law",
        "Section 7.2, Figure 1",
        "On the law school dataset, our method achieves a higher accuracy than all the baselines for all "
        "levels of fairness (pDP).",
    ),
    Claim(
        "frontier-pdp-others",
        "Section 7.2, Figure 1",
        "On a9a and bank, our method achieves the highest accuracy at high levels of fairness (0.85 and "
        "more) and similar accuracy to the baselines below (pDP).",
    ),
    Claim(
        "rank-curves",
        "Section 7.1, Figure 2",
        "As κ decreases, the positive rates of both groups increase at a more similar speed within the "
        "interval.",
    ),
    Claim(
        "densities",
        "Section G.5, Figures 3 to 8",
        "As κ decreases, the distributions of scores on the interval (pSP), or the proportions above 0 "
        "(pDP), become more and more similar.",
    ),
    Claim(
        "robust",
        "Section G.6, Figure 9",
        "At the same accuracy our method achieves the highest and most stable fairness as the interval "
        "changes.",
    ),
    Claim(
        "idca-psp",
        "Section G.7, Figure 10",
        "IDCA and SSG have similar performances on a9a and bank (pSP); on law school IDCA achieves a "
        "significantly smaller objective and infeasibility.",
    ),
    Claim(
        "idca-pdp",
        "Section G.7, Figure 11",
        "IDCA and SSG have similar performances on a9a and law school (pDP); SSG is slightly better on bank.",
    ),
    Claim(
        "acs",
        "Section G.8, Table 2",
        "On ACS our method attains higher accuracy than every baseline across all levels of pSP fairness.",
    ),
    Claim(
        "networks-partial",
        "Section G.9, Figure 12",
        "For a fixed level of partial parity, enforcing partial constraints on networks yields higher "
        "accuracy than imposing full parity.",
    ),
    Claim(
        "networks-points",
        "Section G.9, Figure 12",
        "Increasing |Î| from 10 to 50 has little impact on networks under partial parity.",
    ),
    Claim(
        "partial-full",
        "Section G.10, Table 3",
        "Partial parity achieves a superior trade-off to full parity on bank and law school, and a "
        "comparable one on a9a.",
    ),
    Claim(
        "points",
        "Section G.11, Table 4",
        "There is no significant improvement from increasing |Î| from 10 to 20, except on law school.",
    ),
)
