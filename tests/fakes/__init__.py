"""Stand-ins for the world: complete adapters of the ports, in memory, held to the same suites."""
