"""``python -m mats`` is ``mats``."""

from mats.cli.main import run

if __name__ == "__main__":
    run()
