"""The one way to change a host: observe, journal, execute, wait, and the lock around it.

Commands call this with a plan; it knows no policy and decides nothing about what shall be.
"""
