"""Probes: one module is one fact about a host.

A probe module exports ``PROBE``, with a ``read`` that collects raw text through a readable host
and a pure ``parse`` of it; nothing is registered anywhere. :mod:`stoker.probes.observe` runs
them. Probes change nothing, judge nothing and know no policy.
"""
