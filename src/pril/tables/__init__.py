"""Tables of any size: read, learned from, predicted, streamed. Needs the extras cli and io."""
