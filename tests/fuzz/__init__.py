"""Hostile files and options for every command, each case made again from one integer.

``python -m tests.fuzz 1234`` makes the case, shows it, runs it and says what was wrong with the answer.
"""
