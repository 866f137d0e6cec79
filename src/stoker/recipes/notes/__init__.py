"""What people write about engines: notes, scripts, units and manifests become commands.

:mod:`stoker.recipes.notes.read` is the way in. Everything here is pure, and nothing that is read is
run or expanded: what a shell would have computed stays unknown, with the reason.
"""
