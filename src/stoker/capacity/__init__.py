"""How much context fits, and where the memory lies: pure arithmetic over what is known.

Called by the commands that plan and by whoever scores predictions. Nothing here reads a host, an
engine or a flag: :class:`~stoker.capacity.inputs.Inputs` says all of it by meaning, and what
engines and releases do stands in ``knowledge/data/capacity``.
"""
