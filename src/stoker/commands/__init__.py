"""One module a verb: the only place where the pure and the effectful meet.

The command line and the web call these functions with a :class:`~stoker.commands.world.World`
and get values back; nothing here prints.
"""
