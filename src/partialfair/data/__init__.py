"""Rows of a data set (features, targets, groups, weights, clusters) and how they are split; internal."""
