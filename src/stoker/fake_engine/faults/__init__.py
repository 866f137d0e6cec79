"""One module for each area of the contract, each with ``FAULTS``: the switches of that area.

:func:`stoker.fake_engine.fault.discover_faults` finds them by listing this folder.
"""
