"""Checks of arguments, files, the clock of a fit, types and texts, for all packages; internal."""
