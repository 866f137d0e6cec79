"""What is known, and judging with it: rules, flags, engine tables, pinned packages.

The data files under ``data`` hold the knowledge, the modules here load and judge it. Pure: nothing
here reads the host, the clock or the network; only our own package's data files are opened.
"""
