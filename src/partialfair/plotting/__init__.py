"""Pictures of scores and results: each function draws on axes and returns them; none trains anything.

Drawing needs matplotlib (``pip install 'partialfair[cli]'``), which is imported on the first call.
"""

from partialfair.plotting.adjustment import plot_score_maps
from partialfair.plotting.curves import plot_rank_curve
from partialfair.plotting.densities import plot_score_densities
from partialfair.plotting.frontier import plot_path
from partialfair.plotting.maps import plot_unfairness_map

__all__ = ["plot_path", "plot_rank_curve", "plot_score_densities", "plot_score_maps", "plot_unfairness_map"]
