"""One module, one promise. Each offers ``CHECK``, whose id is the name of its module.

:func:`stoker.contract.run.discover_checks` finds them by listing this folder. A check is two pure
functions: which requests try the promise, and what the exchanges say about it.
"""
