"""Hosts: the adapters of the Host port.

``local`` is this machine, ``recording`` remembers what was read through it, ``replay`` answers
from such a memory on another machine. Nothing here decides anything.
"""
