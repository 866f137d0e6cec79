"""Immutable engine environments: where they lie, whether they are complete, how they are made."""
