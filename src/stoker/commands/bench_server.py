"""Finding and verifying the server that a benchmark is about: a deployment's, or one at a URL.

Called by :mod:`stoker.commands.bench` and :mod:`stoker.commands.tune_measuring`.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.commands.bench_url import Server, Which, find_by_url, verify
from stoker.commands.world import World

__all__ = ["Server", "Which", "find_bench_server", "find_process", "locate_server", "verify_server"]


def find_bench_server(world: World, which: Which) -> Server:
    """The server, verified unless the wish says otherwise.

    Raises UsageError where there is none, ContractFailed where it breaks a promise.
    """
    return verify_server(world, which, locate_server(world, which))


def locate_server(world: World, which: Which) -> Server:
    """The server as it is, not verified. Raises UsageError or EndpointError."""
    if which.target is not None and "://" in which.target:
        return find_by_url(world, which, which.target)
    # What belongs to deployments costs most of a second that a server behind a URL does not need.
    from stoker.commands.bench_deployment import find_by_name

    return find_by_name(world, which)


def verify_server(world: World, which: Which, server: Server) -> Server:
    """The same server, verified unless the wish says otherwise. Raises ContractFailed."""
    if which.is_unverified:
        return server
    if server.generation is None:
        verified = verify(world, which, server.served.url)
    else:
        from stoker.commands.bench_deployment import verify_deployment

        verified = verify_deployment(world, which, server)
    return replace(server, served=replace(server.served, verified=verified))


def find_process(world: World, server: Server) -> str:
    """Which process of a deployment runs now; empty where none does or it is not ours."""
    if server.generation is None:
        return ""
    from stoker.commands.bench_deployment import process_of

    return process_of(world, server)
