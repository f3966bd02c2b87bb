"""Tests of the commands, a package because modules elsewhere have the same names."""
