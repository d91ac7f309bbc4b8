"""What every learner is built on: its base class, its weights of rows, and its place in a model.

`classifier` has the base class and the mixins that say what a learner outputs, `weights` reads the
weights of rows and classes, and `parts` finds the steps, the learner and the wrappers of a model.
"""
