"""Stoker: the operator for self-hosted large language models."""

__version__ = "0.1.0"
