"""Model files: where they come from, where they lie on a host, and how they get there."""
