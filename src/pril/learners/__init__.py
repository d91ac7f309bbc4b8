"""The learners, one a file, and the baselines in one."""
