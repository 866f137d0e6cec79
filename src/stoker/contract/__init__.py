"""The contract: what a server promises, tried over HTTP and judged by pure functions.

:mod:`stoker.contract.run` tries the checks; each module of :mod:`stoker.contract.checks` is one
promise. Nothing here knows how an engine is started, and nothing changes a host.
"""
