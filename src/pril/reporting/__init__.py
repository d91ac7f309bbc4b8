"""Reports: pages that say how good a model is."""
