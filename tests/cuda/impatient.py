"""The command ``mats`` with less patience for copies between GPUs, so that a test of one that never ends is short."""

from mats.cli.main import run
from mats.probes import _nvlink_bench

if __name__ == "__main__":
    _nvlink_bench.PATIENCE = 1.0
    run()
