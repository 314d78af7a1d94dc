"""Draw scores and results: each function draws on axes and returns them; none trains anything.

Drawing needs matplotlib (``pip install 'partialfair[cli]'``), which is imported on the first call.
"""

from partialfair.plotting.frontier import plot_path
from partialfair.plotting.ranks import plot_rank_curve, plot_unfairness_map
from partialfair.plotting.scores import plot_score_densities, plot_score_maps

__all__ = ["plot_path", "plot_rank_curve", "plot_score_densities", "plot_score_maps", "plot_unfairness_map"]
