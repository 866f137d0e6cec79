"""Scores of what Stoker knows, on folders of cases: each module prints one report.

Called by `make` and by hand (``python -m stoker.evaluate.NAME``). Nothing else calls it.
"""
