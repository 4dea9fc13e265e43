"""Tests of the health check on facts that are made for them, on simulated machines and on saved evidence."""
