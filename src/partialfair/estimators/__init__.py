"""scikit-learn estimators over the training problem; internal: import them from `partialfair`."""
