"""Supervisors: the adapters of the Supervisor port, one service manager a module.

Built by the command layer and handed out as :class:`stoker.ports.Supervisor`. An adapter knows
its manager and nothing of engines, plans or policy.
"""
