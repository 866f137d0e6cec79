"""The service's main process: it runs the engine and tells the service manager the truth about it.

A service manager starts ``python -m stoker.guard CONFIG.json``. What is decided lies in pure
modules (values, progress, vigil, decide, words); what touches the world lies in the others.
"""
