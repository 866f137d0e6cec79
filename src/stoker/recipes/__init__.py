"""Settings that others have found good: public collections, notes and model cards become values.

Importers are pure: text in, values out. Nothing that they read is ever run, expanded or trusted:
each setting keeps where it came from, and what needs its owner's consent is marked. Called by the
command layer, which reads and writes the files.
"""
