"""Learning row by row, compiled: the loop, the memory it changes, and streams of single rows.

Every online learner comes through here, from `partial_fit` to a stream: `learning` turns X and y
into a batch, an engine learns it, and `loop` is the compiled code that visits its rows in order.
"""
