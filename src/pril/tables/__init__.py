"""Tables of any size: read, learned from, predicted, streamed. Needs ``pril[cli,io]``."""
