"""``python -m stoker``: the same as the ``stoker`` command."""

from stoker.cli.start import run

if __name__ == "__main__":
    run()
