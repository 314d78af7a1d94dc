"""Fits a linear model: samples, constraints and settings in, model and result out; internal.

`fit.fit_linear` is the fit in the user's units; `search.find_model` defines the order of its steps.
"""
