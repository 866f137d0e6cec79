"""Tests of what decides a search."""
