"""Pure planning: desired state against actual state gives changes, then activations.

Commands call this with values they observed; nothing here may touch the world.
"""
