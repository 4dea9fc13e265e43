"""Tests of judging, running and the command line, on small devices and probes made for them."""
