"""Derived facts: everything a rule needs that is more than one comparison.

One module for each subject; each takes the whole case and answers JSON-shaped data with Unknown
leaves. Called by :mod:`stoker.knowledge.derive`. Pure.
"""
