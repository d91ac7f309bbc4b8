"""Kernel values, support rows, and the loop on a GPU."""
