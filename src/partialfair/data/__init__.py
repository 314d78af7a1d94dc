"""Rows of a data set: features, targets, groups, weights and clusters, and how they are split."""
