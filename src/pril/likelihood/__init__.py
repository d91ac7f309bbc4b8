"""One likelihood of labels that are ranges, its maximum, and how certain that is.

A row with the score f = w . x is of class y with P(y | x) = F(theta_y - f) - F(theta_{y-1} - f).
F is the *link*, see `pril.links`. A row of class y is given the label u with the chance M[u, y],
which adds up to 1 over the labels: the *coarsening mechanism* (Heitjan and Rubin, 1991). So

    ``P(u | x) = sum_y P(y | x) M[u, y]``

- `mechanisms`: where M comes from. At random, by shared offsets with numbers phi, or a free table.
- `rows`: rows in blocks, wherever they are; their sums are added up in a tree.
- `sums`: the log-likelihood, its gradient and second derivatives by w, theta and phi, in one pass.
- `priors`: what is added to the log-likelihood.
- `newton`: damped Newton steps to the maximum; the value never falls.
- `fitting`: which mechanism is the most likely one, and the maximum with it.
- `errors`: the covariance of the maximum.
"""
