"""Frozen values. Nothing here touches the world; everything above may import it."""
