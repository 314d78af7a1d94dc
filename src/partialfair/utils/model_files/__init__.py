"""Checks of model files of unknown origin, before compiled code reads them."""
