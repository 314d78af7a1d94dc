"""Draw the figures of README, choosing and CONTRIBUTING: ``python docs/make_images.py [DIRECTORY]``."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from sklearn.model_selection import train_test_split

from partialfair import PartialFairClassifier, fairness_path, make_table_pipeline
from partialfair.datasets import load_adult, make_admissions
from partialfair.metrics import partial_statistical_parity_difference
from partialfair.plotting import plot_score_densities
from partialfair.plotting.style import GROUP_COLOURS

MAX_GAPS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


BLUE, ORANGE, GREEN = GROUP_COLOURS[:3]
GREY = "#4D4D4D"


def main(directory: Path) -> None:
    """Draw all figures."""
    draw_before_and_after(directory / "before_and_after.png")
    draw_frontier(directory / "frontier.png")
    draw_score_space(directory / "score_space.png")


def draw_before_and_after(file: Path) -> None:
    """Draw the scores of the README's example on its test rows, without the constraint and with it."""
    data, interval = load_adult(), (0.05, 0.30)
    split = train_test_split(data.X, data.y, data.sensitive_features, test_size=0.4, random_state=0)
    X, X_test, y, _, sex, sex_test = split  # the test labels are not needed
    figure, axes = plt.subplots(2, 2, figsize=(10, 3.6), sharex="col", layout="constrained")
    titles = {None: "Without a constraint", "statistical_parity": "With max_gap=0.1 on ranks 5–30%"}
    for column, (constraint, title) in enumerate(titles.items()):
        model = make_table_pipeline(PartialFairClassifier(constraint, interval=interval, max_gap=0.1))
        scores = model.fit(X, y, partialfairclassifier__sensitive_features=sex).decision_function(X_test)
        kwargs = {"sensitive_features": sex_test, "interval": interval}
        plot_score_densities(scores, **kwargs, axes=axes[:, column])
        gap = partial_statistical_parity_difference(None, scores, **kwargs)
        axes[0, column].set_title(f"{title}: test gap {gap:.2f}\n", fontsize=11, weight="bold")
        axes[1, column].set_xlabel("score (log-odds of a high income)")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def draw_frontier(file: Path) -> None:
    """Draw the path of the example in choosing.md, with more limits."""
    data, new = make_admissions(3000), make_admissions(6000, seed=1)
    columns = pd.get_dummies(data.X, dtype=float)

    def prepare(X: pd.DataFrame) -> pd.DataFrame:
        X = pd.get_dummies(X, dtype=float).reindex(columns=columns.columns, fill_value=0)
        return ((X - columns.mean()) / columns.std()).fillna(0)

    path = fairness_path(
        PartialFairClassifier(interval=(0.15, 0.40)),
        prepare(data.X),
        data.y,
        sensitive_features=data.sensitive_features,
        max_gaps=MAX_GAPS,
        validation=(prepare(new.X), new.y, new.sensitive_features),
        random_state=0,
    )
    path.plot().figure.savefig(file, dpi=110)


def draw_score_space(file: Path) -> None:
    """Draw how reductions are evaluated on all shards and combined."""
    figure, ax = plt.subplots(figsize=(10, 6.2), layout="constrained")
    ax.set(xlim=(0, 100), ylim=(0, 62))
    ax.axis("off")
    _box(ax, (2, 50, 20, 10), "solver\nx = (w, θ), requires", GREY)
    _box(ax, (36, 50, 28, 10), "Problem.reduce(…)\none call = one pass, counted", GREY)
    _box(ax, (78, 50, 20, 10), "Ranks, Counts\nthresholds, exact gaps", GREY)
    _arrow(ax, (22, 56.5), (36, 56.5))
    _note(ax, (29, 59.3), "values, gradients,\nHessians, kinks")
    _arrow(ax, (36, 52.5), (22, 52.5))
    _note(ax, (29, 49.7), "results, without\narrays of n rows")
    # The shards behind the first have other rows and the same operations.
    for shift in (3.0, 1.5, 0.0):
        _box(ax, (2 + shift, 3 + shift, 92, 34), "", GREY, fill="white")
    _note(ax, (4, 34.2), "shard: a subset of the rows, in a thread or on a worker", "left", GREY)
    _box(ax, (5, 13.25, 16, 11), "model\ns = scores(w)", BLUE)
    _box(ax, (33, 21.5, 29, 10), "loss\nscores, targets, shares", ORANGE)
    _box(ax, (33, 6, 29, 10), "atoms of constraints\nscores, members, θ", ORANGE)
    _note(ax, (47.5, 18.75), "formulas: functions of scores", colour=ORANGE)
    _box(ax, (74, 13.25, 18, 11), "model\nJᵀv, JᵀC = vjp(w, C)", BLUE)
    _arrow(ax, (21, 21), (33, 26.5))
    _arrow(ax, (21, 16.5), (33, 11))
    _note(ax, (26, 18.75), "scores s")
    _arrow(ax, (62, 26.5), (74, 21))
    _note(ax, (69.5, 26), "slopes v over rows", "left")
    _arrow(ax, (62, 11), (74, 16.5))
    _note(ax, (69.5, 11), "columns C over rows", "left")
    _arrow(ax, (44, 50), (44, 40.2))
    _note(ax, (43, 45.1), "w, θ, reductions", "right")
    _arrow(ax, (56, 40.2), (56, 50), GREEN)
    _note(ax, (57, 45.1), "results, combined", "left")
    _arrow(ax, (88, 40.2), (88, 50))
    _note(ax, (87, 45.1), "scores by rank", "right")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _box(
    ax: Axes, corner_and_size: tuple[float, float, float, float], text: str, colour: str, fill: str = "none"
) -> None:
    x, y, width, height = corner_and_size
    style = {
        "boxstyle": "round,pad=0,rounding_size=1.2",
        "edgecolor": colour,
        "facecolor": fill,
        "linewidth": 1.6,
    }
    ax.add_patch(FancyBboxPatch((x, y), width, height, **style))
    name, _, rest = text.partition("\n")
    ax.text(
        x + width / 2,
        y + 0.65 * height,
        name,
        color=colour,
        fontsize=11,
        weight="bold",
        ha="center",
        va="center",
    )
    ax.text(x + width / 2, y + 0.3 * height, rest, color="black", fontsize=10, ha="center", va="center")


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = GREY) -> None:
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.4})


def _note(
    ax: Axes, place: tuple[float, float], text: str, align: str = "center", colour: str = "black"
) -> None:
    ax.text(*place, text, color=colour, fontsize=9.5, ha=align, va="center")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
