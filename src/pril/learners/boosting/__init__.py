"""What `OrderedBoosting` is made of."""
