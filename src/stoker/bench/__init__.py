"""Measuring a served model under load. Sending is the work of :mod:`stoker.bench.load` alone."""
