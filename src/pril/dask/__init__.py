"""Training on a Dask cluster. Needs Dask, the extra ``dask``.

A table is a list of blocks of rows, and each block is lazy. There are two ways to learn online:

- ``"chain"`` is the online algorithm: the model goes from block to block;
- ``"mix"`` is iterative parameter mixing (McDonald, Hall and Mann, 2010): in every round all blocks
  learn one pass from the common model, and the common model moves by the mean of their changes.

`OrderedLogit` and `OrderedBoosting` learn what they learn in memory, bit for bit.

`blocks` cuts tables into blocks and applies a Pipeline to them, `mix`, `maximum` and `boosting`
learn, and `client` computes the tasks.
"""

from __future__ import annotations

from pril.errors import InputError, InputTypeError, MissingExtraError

try:
    import dask  # noqa: F401
    import distributed
except ModuleNotFoundError as error:
    if error.name not in ("dask", "distributed"):
        raise
    raise MissingExtraError("pril.dask needs Dask", "dask") from error

from typing import Any

import numpy as np
from dask.delayed import Delayed
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from pril.bases.parts import Parts
from pril.core.scikit import validate_params
from pril.dask.blocks import (
    Blocks,
    LazyLabels,
    LazyRows,
    LazyTable,
    blocks_of,
    declared_classes,
    empty_features,
    fitted_steps,
    predict_lazily,
    score_lazily,
    transformed,
)
from pril.dask.boosting import learn_blocks
from pril.dask.client import Cluster as Cluster
from pril.dask.client import ClusterLost
from pril.dask.maximum import learn_maximum
from pril.dask.mix import Mode, learn_online

__all__ = ["ClusterLost", "fit", "fit_blocks", "latent", "predict", "score"]


def fit(
    estimator: BaseEstimator,
    X: LazyRows,
    y: LazyLabels,
    *,
    mode: Mode = "mix",
    epochs: int | None = None,
    client: distributed.Client | None = None,
    progress: bool = False,
) -> Any:
    """Learn from a Dask array or DataFrame, and return an ordinary fitted estimator.

    Blocks are read again in every round or step. If they fit into the cluster's memory, pass
    ``X.persist()`` and ``y.persist()``.

    Parameters
    ----------
    estimator : estimator
        A learner of this package. It is not changed: a clone learns. If its `classes` are None and
        y is not an ordered Categorical, all labels are read once before the first round.

        Or a :class:`~sklearn.pipeline.Pipeline` that ends in a learner. Its other steps must be
        fitted already, for example to some rows, and stay as they are. Only a `ColumnEncoder` at
        its beginning may be blank: it is fitted here, to all rows.
    X : dask Array or dask DataFrame of shape (n_samples, n_features)
        Features, in blocks of rows. Blocks of an array may be CSR matrices.
    y : dask Array, Series or DataFrame, or names of columns
        Exact labels, or two columns with the lower and the upper end of each label, in the same
        blocks as X. If X is a DataFrame, y may also be the name of its label column, or two names;
        the other columns are the features.
    mode : {"mix", "chain"}, default="mix"
        "mix": all blocks learn at once from a common model, which then moves by the mean of their
        changes, weighted by rows. "chain": one block after the other, without shuffling; the model
        is the one of `partial_fit` in memory, bit for bit.
    epochs : int, default=None
        Largest number of passes over the blocks. None means the estimator's `max_iter`.
    client : distributed.Client, default=None
        Where to compute. None means the active client, or Dask's own threads if there is none.
    progress : bool, default=False
        Whether to print Dask's progress bar: one for each round of "mix", one for every eight
        blocks of "chain".

    Returns
    -------
    model : estimator
        The fitted clone. `t_`, `n_mistakes_` and `n_updates_` count over all blocks; `partial_fit`
        continues from the common model.

    Raises
    ------
    ClusterLost
        If the cluster is gone, has no workers, cancelled the work, or cannot import pril.

    See Also
    --------
    fit_blocks : Learn from blocks of any origin.

    Notes
    -----
    `OrderedLogit` takes the steps of `fit`: tasks return sums over rows, cut as they would be in
    memory, and the client adds them up in order. So the model is the one of `fit` in memory, bit
    for bit, whatever the blocks are. A sample of at most 5,000 rows goes to the client; with more
    than 1,000 features, all rows do.

    `OrderedBoosting` learns in another way: each worker holds the bins of all rows, a byte for each
    feature, and grows the boosters of some folds. So up to `n_folds` workers share the work, and
    the model is the one of `fit` in memory, bit for bit. Labels, weights and a sample of at most
    200,000 rows go to the client.

    With `average`, a mixed model predicts with the mean of the blocks' models after each row, over
    the second half of the rounds. With `shuffle`, each block has a new order in each round, which
    depends only on `random_state`, the round and the block. Rows are never moved between blocks.
    Mixing works best if every block looks like the whole table: shuffle a sorted table first.

    References
    ----------
    R. McDonald, K. Hall and G. Mann, "Distributed Training Strategies for the Structured
    Perceptron", NAACL 2010.

    Examples
    --------
    >>> import dask.array as da
    >>> import pril.dask
    >>> X = da.linspace(-3, 3, 600, chunks=100).reshape(-1, 1)
    >>> y = da.digitize(X[:, 0], [-1, 1])
    >>> model = pril.dask.fit(pril.PRIL(classes=[0, 1, 2]), X, y, mode="chain")
    >>> model.predict([[-2.0], [0.0], [2.0]])
    array([0, 1, 2])
    """
    learner, blocks = _learner_of(estimator), blocks_of(X, y)
    classes = declared_classes(X, y) if learner.classes is None else None
    table = LazyTable(blocks, empty_features(X, y), classes)
    return _fit(estimator, table, mode, epochs, Cluster(client, progress))


def fit_blocks(
    estimator: BaseEstimator,
    blocks: Blocks,
    *,
    mode: Mode = "mix",
    epochs: int | None = None,
    client: distributed.Client | None = None,
    progress: bool = False,
) -> Any:
    """Learn from lazy blocks of any origin, such as one for each file.

    Parameters
    ----------
    estimator : estimator
        A learner of this package, or a Pipeline, as in `fit`. It is not changed: a clone learns.
    blocks : sequence of dask Delayed
        Each is X and y of a block, as `partial_fit` takes them, and perhaps the weights of its
        rows; or a tuple of several Delayed.
    mode : {"mix", "chain"}, default="mix"
        As in `fit`.
    epochs : int, default=None
        As in `fit`.
    client : distributed.Client, default=None
        As in `fit`.
    progress : bool, default=False
        As in `fit`.

    Returns
    -------
    model : estimator
        The fitted clone.

    Examples
    --------
    >>> import dask
    >>> import numpy as np
    >>> import pril.dask
    >>> def read(start):
    ...     X = np.linspace(start, start + 6, 100).reshape(-1, 1)
    ...     return X, np.digitize(X[:, 0], [-1, 1])
    >>> blocks = [dask.delayed(read)(start) for start in (-3.3, -3.0, -2.7)]
    >>> model = pril.dask.fit_blocks(pril.PRIL(classes=[0, 1, 2], random_state=0), blocks)
    >>> model.predict([[-2.0], [0.0], [2.0]])
    array([0, 1, 2])
    """
    return _fit(estimator, LazyTable(list(blocks)), mode, epochs, Cluster(client, progress))


def _fit(
    estimator: BaseEstimator, table: LazyTable, mode: Mode, epochs: int | None, cluster: Cluster
) -> Any:
    """Fit the steps and the learner."""
    model = clone(_learner_of(estimator))
    validate_params(model)
    if len(table.blocks) == 0:
        raise InputError("X has no blocks")
    steps = fitted_steps(estimator, table.blocks, cluster)
    if steps:
        table = table._replace(blocks=transformed(steps, table.blocks), features=None)
    maximises = hasattr(model, "learn_maximum")
    if hasattr(model, "partial_fit") and not maximises:
        model = learn_online(model, table, mode, epochs, cluster)
    else:
        if mode != "mix" or epochs is not None:
            raise InputError(
                f"mode and epochs have no meaning for {type(model).__name__}, which learns all "
                "rows at once: leave them out"
            )
        model = (learn_maximum if maximises else learn_blocks)(model, table, cluster)
    if not hasattr(estimator, "steps"):
        return model
    return clone(estimator).set_params(steps=[*steps, (estimator.steps[-1][0], model)])


def predict(estimator: BaseEstimator, X: LazyRows) -> LazyRows:
    """Predict a label for each row, lazily.

    Parameters
    ----------
    estimator : estimator
        A fitted learner of this package, alone or at the end of a Pipeline.
    X : dask Array or dask DataFrame of shape (n_samples, n_features)
        Features, in blocks of rows.

    Returns
    -------
    labels : dask Array or dask Series of shape (n_samples,)
        The predicted classes, in the chunks or with the index of X.

    Examples
    --------
    >>> import dask.array as da
    >>> import pril.dask
    >>> X = da.linspace(-3, 3, 600, chunks=100).reshape(-1, 1)
    >>> y = da.digitize(X[:, 0], [-1, 1])
    >>> model = pril.dask.fit(pril.PRIL(classes=[0, 1, 2]), X, y, mode="chain")
    >>> pril.dask.predict(model, X)[[0, 300, 599]].compute()
    array([0, 1, 2])
    """
    check_is_fitted(Parts.of(estimator).learner)
    return predict_lazily(estimator, X, "predict", estimator.classes_.dtype)


def latent(estimator: BaseEstimator, X: LazyRows) -> LazyRows:
    """Return the score f(x) that the thresholds cut into classes, lazily.

    Parameters
    ----------
    estimator : estimator
        A fitted learner of this package with thresholds, alone or at the end of a Pipeline.
    X : dask Array or dask DataFrame of shape (n_samples, n_features)
        Features, in blocks of rows.

    Returns
    -------
    scores : dask Array or dask Series of shape (n_samples,)
        Comparable to the model's `thresholds_`, in the chunks or with the index of X.

    Examples
    --------
    >>> import dask.array as da
    >>> import pril.dask
    >>> X = da.linspace(-3, 3, 600, chunks=100).reshape(-1, 1)
    >>> y = da.digitize(X[:, 0], [-1, 1])
    >>> model = pril.dask.fit(pril.PRIL(classes=[0, 1, 2]), X, y, mode="chain")
    >>> bool((pril.dask.latent(model, X).compute() == model.latent(X.compute())).all())
    True
    """
    learner = Parts.of(estimator).learner
    check_is_fitted(learner)
    if not hasattr(learner, "latent"):
        raise InputTypeError(
            f"{type(learner).__name__} has a score for each class, not one latent score"
        )
    return predict_lazily(estimator, X, "latent", np.dtype(np.float64))


def score(estimator: BaseEstimator, X: LazyRows, y: LazyLabels) -> Delayed:
    """Return the share of predictions inside their interval, lazily.

    Parameters
    ----------
    estimator : estimator
        A fitted learner of this package, alone or at the end of a Pipeline.
    X : dask Array or dask DataFrame of shape (n_samples, n_features)
        Features, in blocks of rows.
    y : dask Array, Series or DataFrame, or names of columns
        Exact labels or ranges, as in `fit`.

    Returns
    -------
    score : dask Delayed
        Its `compute` gives a float between 0 and 1.

    Examples
    --------
    >>> import dask.array as da
    >>> import pril.dask
    >>> X = da.linspace(-3, 3, 600, chunks=100).reshape(-1, 1)
    >>> y = da.digitize(X[:, 0], [-1, 1])
    >>> model = pril.dask.fit(pril.PRIL(classes=[0, 1, 2]), X, y, mode="chain")
    >>> pril.dask.score(model, X, y).compute() == model.score(X.compute(), y.compute())
    True
    """
    check_is_fitted(Parts.of(estimator).learner)
    return score_lazily(estimator, X, y)


def _learner_of(estimator: BaseEstimator) -> Any:
    """Return the learner to be fitted, alone or at the end of a Pipeline; refuse anything else."""
    parts = Parts.of(estimator)
    others = [part for part in parts.wrappers if not hasattr(part, "steps")]
    if others or parts.is_frozen or len(parts.wrappers) > 1:
        raise parts.wrong("estimator must be a learner of this package")
    return parts.learner
