"""The command `pril`: arguments and printing. The work is done by the library."""
