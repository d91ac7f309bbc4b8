"""What every learner is made of."""
