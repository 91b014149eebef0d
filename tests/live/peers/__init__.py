"""Tests of gateways that report to one another."""
