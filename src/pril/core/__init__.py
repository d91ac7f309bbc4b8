"""What all rooms share: rows, links, threads, the list of learners, parts of scikit-learn."""
