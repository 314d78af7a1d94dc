"""Fits a linear model: samples, constraints and settings in, model and result out; internal.

`fit.fit_linear` is the fit in the user's units, `search.find_model` the order of its steps.
"""
