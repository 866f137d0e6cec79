"""What both kinds of preparation stand on: one maker a target, pip as a child, growth, failures.

Called by :mod:`stoker.builds` and :mod:`stoker.weights`, which are strangers to each other. Knows
nothing of environments or models, and never touches what a running service uses.
"""
