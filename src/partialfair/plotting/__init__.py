"""Draws scores by group on Matplotlib axes.

Results draw themselves with `plot()`. Drawing needs Matplotlib (``pip install 'partialfair[cli]'``), which is
imported on the first call.
"""

from partialfair.plotting.scores import plot_score_densities

__all__ = ["plot_score_densities"]
