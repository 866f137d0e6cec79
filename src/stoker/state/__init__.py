"""The state folder: what Stoker knows and did, as versioned JSON documents.

Commands read and write it; nothing else does. It belongs to one user and is closed to others.
"""
