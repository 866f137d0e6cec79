"""Scores of what Stoker knows."""
