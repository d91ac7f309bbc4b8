"""Progressive evaluation as a user sees it; its rounds are tested with the loop."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import MPRIL, PRIL, MulticlassPerceptron
from pril.evaluate import progressive
from pril.metrics import interval_absolute_error

X = np.array([[0.5], [-0.5], [0.25], [-0.25]])
y = [(2, 3), (1, 1), (None, 2), (1, 2)]


def test_it_learns_and_goes_on():
    whole, halves = PRIL(classes=[1, 2, 3]), PRIL(classes=[1, 2, 3])
    at_once = progressive(whole, X, y)
    first, second = progressive(halves, X[:2], y[:2]), progressive(halves, X[2:], y[2:])
    np.testing.assert_array_equal(
        at_once.predictions, np.concatenate([first.predictions, second.predictions])
    )
    np.testing.assert_array_equal(whole.coef_, halves.coef_)
    assert at_once.running_loss[-1] == interval_absolute_error(
        y, at_once.predictions, classes=[1, 2, 3]
    )


def test_scores_have_one_column_a_class_where_the_learner_has():
    assert progressive(PRIL(), X, y, [1, 2, 3]).scores.shape == (4,)
    assert progressive(MulticlassPerceptron(), X, y, [1, 2, 3]).scores.shape == (4, 3)


def test_a_failure_changes_nothing():
    model = PRIL(classes=[1, 2, 3])
    with pytest.raises(ValueError, match="y, row 3: 9 is not one of the classes"):
        progressive(model, X, [1, 2, 3, 9])
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="no rows"):
        progressive(model, np.empty((0, 1)), [])


def test_a_fitted_model_takes_no_rows_as_no_rounds():
    model = PRIL(classes=[1, 2, 3]).partial_fit(X, y)
    assert len(progressive(model, np.empty((0, 1)), []).predictions) == 0


def test_what_it_cannot_run_is_refused():
    with pytest.raises(TypeError, match="the learners of this package, got Pipeline"):
        progressive(make_pipeline(StandardScaler(), PRIL()), X, y)
    with pytest.raises(ValueError, match="The 'rate' parameter of MPRIL must be"):
        progressive(MPRIL(rate=-1.0, classes=[1, 2, 3]), X, y)
