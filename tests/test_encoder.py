"""Columns to features: scikit-learn's own ColumnTransformer is the twin."""

from collections import Counter
from decimal import Context, Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from pril import PRIL, load, save
from pril.errors import RowError
from pril.tables.arrow import read_words, to_batch
from pril.tables.encoder import ColumnEncoder
from pril.tables.label_columns import read_labels
from tables import make_rows

USED = ["size", "age", "town"]
WIDE = Context(prec=100)


def frame(n=300, seed=0):
    return pd.DataFrame(make_rows(n, seed))[USED]


def in_pieces(encoder, table, n):
    for start in range(0, len(table), n):
        encoder.partial_fit(table[start : start + n])
    return encoder


def twin(*steps):
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), *steps), ["size", "age"]),
        # A gap is no word: it has zeros, as a word that training never saw.
        (
            OneHotEncoder(categories=[["Bern, old", "Oslo", "Rome"]], handle_unknown="ignore"),
            ["town"],
        ),
        sparse_threshold=0.0,
    )


@pytest.mark.parametrize("pieces", [1, 7, 300])
def test_equals_column_transformer(pieces):
    table = frame()
    # scikit-learn's scaler, after its imputer, counts filled gaps in the variance; ours does not.
    known = twin().fit(table).transform(table)
    scaler = StandardScaler().fit(table[["size", "age"]])
    known[:, :2] = (known[:, :2] - scaler.mean_) / scaler.scale_
    encoder = in_pieces(ColumnEncoder(), table, pieces)
    np.testing.assert_allclose(encoder.transform(table), known, atol=1e-12)
    assert encoder.get_feature_names_out().tolist() == [
        "size", "age", "town=Bern, old", "town=Oslo", "town=Rome",
    ]  # fmt: skip
    assert encoder.feature_names_in_.tolist() == USED


def test_switched_off_parts():
    table = frame()
    np.testing.assert_allclose(
        ColumnEncoder(scale=False).fit(table).transform(table), twin().fit(table).transform(table)
    )
    bounded = in_pieces(ColumnEncoder(bounded=True), table, 50).transform(table)[:, :2]
    plain = ColumnEncoder().fit(table).transform(table)[:, :2]
    np.testing.assert_allclose(bounded, MaxAbsScaler().fit_transform(plain), atol=1e-12)
    assert np.abs(bounded).max() == 1.0
    row = int(np.flatnonzero(table["size"].isna())[0])
    with pytest.raises(RowError, match=f"row {row}: column 'size' is nan, a missing value"):
        ColumnEncoder(impute=False).fit(table)


def test_any_table_gives_the_same_features():
    table = frame()
    encoder = ColumnEncoder().fit(table)
    expected = encoder.transform(table)
    arrow = pa.Table.from_pandas(table)
    text = pa.table({name: arrow[name].cast(pa.string()) for name in arrow.column_names})
    coded = arrow.set_column(2, "town", arrow["town"].dictionary_encode())
    for other in (arrow, coded, text, text.select(["town", "age", "size"]), to_batch(arrow)):
        np.testing.assert_array_equal(encoder.transform(other), expected)
    from_text = ColumnEncoder(numbers=["size", "age"]).fit(text)
    np.testing.assert_array_equal(from_text.transform(arrow), expected)
    assert encoder.transform(table[:0]).shape == (0, 5)
    with pytest.raises(ValueError, match="X has 2 features, but ColumnEncoder is expecting 3"):
        encoder.transform(np.zeros((2, 2)))


@parametrize_with_checks([ColumnEncoder()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("impute", [True, False])
def test_tags_say_what_it_takes(impute):
    takes = get_tags(ColumnEncoder(impute=impute)).input_tags
    assert (takes.string, takes.categorical, takes.allow_nan) == (True, True, impute)


def test_columns_of_an_array_are_numbered():
    table = frame()
    encoder = ColumnEncoder().fit(table.to_numpy())
    np.testing.assert_array_equal(
        encoder.transform(table.to_numpy()), ColumnEncoder().fit_transform(table)
    )
    assert encoder.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert encoder.get_feature_names_out()[2] == "x2=Bern, old"
    mixed = np.array([[1.0, "a"], ["b", "c"]], dtype=object)
    with pytest.raises(RowError, match=r"row 1: column 'x0' is 'b', but 1\.0 in a row before"):
        ColumnEncoder().fit(mixed)


def test_codes_keep_what_is_missing():
    """scikit-learn's OrdinalEncoder is the twin."""
    # Before pandas 3, scikit-learn takes None for a word.
    table, new = (rows.where(rows.notna(), np.nan) for rows in (frame(), frame(50, seed=1)))
    new.loc[:5, "town"] = "Bonn"  # never seen
    encoder = in_pieces(ColumnEncoder(codes=True), table, 70)
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    expected = make_column_transformer(("passthrough", USED[:2]), (ordinal, USED[2:])).fit(table)
    np.testing.assert_array_equal(encoder.transform(new), expected.transform(new))
    assert encoder.get_feature_names_out().tolist() == USED
    with pytest.raises(RowError, match="a missing value"):
        ColumnEncoder(codes=True, impute=False).fit(table)


def test_many_words_are_sparse_or_left_out():
    words = pa.table({"name": [f"n{k}" for k in range(1500)], "x": np.arange(1500.0)})
    few = ColumnEncoder(most_words=1000).fit(words)
    assert few.left_out_ == ["name"]
    assert few.transform(words).shape == (1500, 1)
    asked = ColumnEncoder(words=["name"]).fit(words)
    features = asked.transform(words)
    assert features.format == "csr"
    assert features.shape == (1500, 1501)
    assert (
        features.toarray()[:, 1:].argmax(axis=1)
        == np.argsort(np.argsort(words["name"].to_pylist()))
    ).all()
    # Numbers read as words.
    assert ColumnEncoder(words=["x"]).fit(words.slice(0, 3)).get_feature_names_out().tolist() == [
        "name=n0", "name=n1", "name=n2", "x=0", "x=1", "x=2",
    ]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=8), max_size=6))
def test_words_are_counted_whatever_the_batches(batches):
    tables = [pa.table({"word": pa.array(cells, pa.string())}) for cells in batches]
    encoder, merged = ColumnEncoder(), ColumnEncoder()
    encoder.partial_fit(pa.table({"word": pa.array([], pa.string())}))
    merged.partial_fit(pa.table({"word": pa.array([], pa.string())}))
    for table in tables:
        encoder.partial_fit(table)
        merged.merge(ColumnEncoder().fit(table))
    expected = Counter(cell for cells in batches for cell in cells if cell)
    for one in (encoder, merged):
        found = zip(one.words_["word"], one.counts_["word"], strict=True)
        assert dict(found) == dict(expected)


def test_a_file_with_counts_of_other_words_is_refused(tmp_path):
    table = pa.table({"word": ["a", "b", "a"], "size": [1.0, 2.0, 3.0]})
    model = make_pipeline(ColumnEncoder(), PRIL(random_state=0)).fit(table, [1, 2, 1])
    save(model, tmp_path / "m.pril")
    assert load(tmp_path / "m.pril")[0].counts_ == {"word": [2, 1]}
    model[0].counts_ = {"word": [2, 1, 1]}
    with pytest.raises(TypeError, match="counts must be a number for each of the words"):
        save(model, tmp_path / "m.pril")


def test_missing_and_unseen_words():
    table = pa.table({"town": ["Oslo", "NA", "", None], "x": ["1", "", "NA", "2.5"]})
    encoder = ColumnEncoder(numbers=["x"], scale=False).fit(table)
    np.testing.assert_array_equal(
        encoder.transform(table), [[1, 1], [1.75, 0], [1.75, 0], [2.5, 0]]
    )
    new = pa.table({"town": [None, "Oslo", "Bonn"], "x": [1, None, 3]})
    assert encoder.transform(new)[2].tolist() == [3.0, 0.0]
    empty = ColumnEncoder(numbers=["x"]).fit(pa.table({"x": [None, None], "z": [1.0, 2.0]}))
    assert empty.transform(pa.table({"x": [None, 5.0], "z": [1.5, 1.5]}))[0].tolist() == [0.0, 0.0]


NOT_UTF_8 = pa.array([b"1", b"\xff", b"3"]).view(pa.string())


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1", "x", "3"], "row 1: column 'x' is 'x', not a number"),
        ([1.0, 2.0, np.inf], "row 2: column 'x' is inf, which is not finite"),
        (["1", "-inf", "3"], "row 1: column 'x' is -inf, which is not finite"),
        (NOT_UTF_8, "row 1: column 'x' is b'.xff', not a number"),
        ([1.0, -1e146, 2.0], "row 1: column 'x' is -1e\\+146, too large: the limit is 1e\\+146"),
    ],
)
def test_bad_numbers_are_named(cells, said):
    encoder = ColumnEncoder(numbers=["x"])
    with pytest.raises(RowError, match=said):
        encoder.fit(pa.table({"x": cells}))
    encoder.fit(pa.table({"x": [1.0, 2.0]}))
    with pytest.raises(RowError, match=said):
        encoder.transform(pa.table({"x": cells}))


def test_other_mistakes():
    encoder = ColumnEncoder().fit(pa.table({"x": [1.0], "w": ["a"]}))
    with pytest.raises(ValueError, match="there is no column 'w'; the columns are"):
        encoder.transform(pa.table({"x": [1.0]}))
    with pytest.raises(ValueError, match=r"shape \(9,\): are X and y swapped\? Reshape"):
        ColumnEncoder().fit(np.arange(9))
    with pytest.raises(TypeError, match="column 'd' cannot be a feature: it holds dates"):
        ColumnEncoder().fit(pa.table({"d": pa.array([0], pa.date32())}))
    with pytest.raises(TypeError, match="column 'x' holds list"):
        encoder.transform(pa.table({"x": [[1.0]], "w": ["a"]}))
    raw = pa.array([b"a", b"\xff"]).view(pa.string())
    with pytest.raises(RowError, match="row 1: column 'w' is b'\\\\xff', which is not UTF-8"):
        encoder.transform(pa.table({"x": [1.0, 1.0], "w": raw}))


def test_labels_of_numbers_and_words():
    batch = to_batch(pa.table({"low": ["1", "", "3.0"], "high": ["2", "4", "NA"]}))
    found = read_labels(batch, ("low", "high"), text=False)
    assert [found.row(t) for t in range(3)] == [(1, 2), (None, 4), (3, None)]
    assert read_labels(batch, ("low",), text=False).row(0) == 1
    words = to_batch(pa.table({"low": ["a", None], "high": ["b", "a"]}))
    found = read_labels(words, ("low", "high"), text=True)
    assert [found.row(t) for t in range(2)] == [("a", "b"), (None, "a")]
    assert found.labelled().tolist() == [True, True]


@given(st.lists(st.sampled_from(["Oslo", "", "Bern, old", "NA", "x" * 20]), min_size=1), st.data())
def test_gaps_in_a_part_of_a_column(words, data):
    start = data.draw(st.integers(0, len(words)))
    part = pa.array(words).slice(start, data.draw(st.integers(0, len(words) - start)))
    expected = [None if word in ("", "NA") else word for word in part.to_pylist()]
    found = read_words(part, "town")
    found.validate(full=True)
    assert found.to_pylist() == expected


def test_the_column_of_a_bad_number_is_named_among_many():
    columns = {f"c{j}": [str(j), "2", "3"] for j in range(50)}
    table = pa.table(columns | {"c33": ["1", "2", "x"], "c44": ["y", "2", "3"]})
    with pytest.raises(RowError, match=r"row 2.*'c33' is 'x', not a number"):
        ColumnEncoder(numbers=list(columns)).fit(table)
    table = pa.table({name: list(map(float, cells)) for name, cells in columns.items()})
    bad = table.set_column(7, "c7", pa.array([1.0, np.inf, 2.0]))
    with pytest.raises(RowError, match=r"row 1.*'c7' is inf, which is not finite"):
        ColumnEncoder().fit(table).transform(bad)


# --- The index of a DataFrame ---------------------------------------------------------------------

INDEXES = {
    "shuffled": np.random.default_rng(0).permutation(60),
    "named": pd.Index(range(100, 160), name="number"),
    "dates": pd.date_range("2024-01-01", periods=60, name="day"),
    "levels": pd.MultiIndex.from_product([list("abcdef"), range(10)], names=["site", None]),
    "objects": pd.Index([1, "a", 2.5] * 20),  # Arrow has no such column
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_an_index_is_no_feature(index):
    rng = np.random.default_rng(0)
    y = np.arange(60) // 20  # the table is sorted by label: row numbers tell it
    plain = pd.DataFrame({"a": rng.normal(size=60), "w": rng.choice(["x", "y"], 60)})
    table = plain.set_index(index)
    names = ["a", "w=x", "w=y"]
    encoder = ColumnEncoder().fit(table)
    assert encoder.get_feature_names_out().tolist() == names
    expected = ColumnEncoder().fit(plain).transform(plain)
    for other in (table, plain, pl.from_pandas(plain)):
        np.testing.assert_array_equal(encoder.transform(other), expected)
    train, _, y_train, _ = train_test_split(table, y, random_state=0)
    assert ColumnEncoder().fit(train, y_train).get_feature_names_out().tolist() == names
    model = make_pipeline(ColumnEncoder(), PRIL(random_state=0))
    scores = [cross_val_score(model, X, y, cv=3) for X in (table, plain, pl.from_pandas(plain))]
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def test_an_index_in_an_arrow_table_is_no_feature():
    table = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([7, 5], name="number"))
    for kept in (pa.Table.from_pandas(table), pa.RecordBatch.from_pandas(table)):
        assert kept.schema.names == ["a", "number"]
        assert ColumnEncoder().fit(kept).numbers_ == ["a"]
        assert ColumnEncoder(numbers=["number"]).fit(kept).numbers_ == ["a", "number"]


# --- Ordered categories, and columns of several kinds ---------------------------------------------


def test_ordered_categories_are_ranks(tmp_path):
    sizes, seen = ["small", "medium", "large", "huge"], ["large", None, "small", "medium", "small"]
    ordered = pd.Categorical(seen, sizes, ordered=True)
    ranks = pd.DataFrame({"x": [1.0, 2, 3, 4, 5], "size": [2.0, None, 0, 1, 0]})
    expected = ColumnEncoder().fit(ranks).transform(ranks)
    enum = pl.DataFrame({"x": ranks["x"].to_numpy(), "size": pl.Series(seen, dtype=pl.Enum(sizes))})
    for table in (ranks.assign(size=ordered), enum):
        encoder = ColumnEncoder().fit(table)
        np.testing.assert_array_equal(encoder.transform(table), expected)
        assert encoder.get_feature_names_out().tolist() == ["x", "size"]
        assert encoder.ranks_ == {"size": sizes}
        save(make_pipeline(encoder, PRIL().fit(expected, range(5))), tmp_path / "m.pril")
        words = ranks.assign(size=seen)  # strings, not categories
        np.testing.assert_array_equal(load(tmp_path / "m.pril")[0].transform(words), expected)
        unseen = encoder.transform(ranks.assign(size=["never seen"] * 5))
        assert (unseen[:, 1] == 0.0).all()
    words = ColumnEncoder(words=["size"]).fit(ranks.assign(size=ordered))
    assert words.get_feature_names_out().tolist() == [
        "x", "size=large", "size=medium", "size=small"
    ]  # fmt: skip
    turned = pd.DataFrame({"grade": pd.Categorical([1, 2, 3], [3, 2, 1], ordered=True)})
    assert (np.diff(ColumnEncoder().fit(turned).transform(turned)[:, 0]) < 0).all()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["a", None, 2.5], "row 2: column '{}' is 2.5, but 'a' in a row before: a column holds"),
        ([None, 1, 2, "b"], "row 3: column '{}' is 'b', but 1 in a row before: a column holds"),
        ([np.nan, "a", 3], "row 2: column '{}' is 3, but 'a' in a row before: a column holds"),
    ],
)
def test_a_column_of_numbers_and_words_is_refused(cells, said):
    table = pd.DataFrame({"x": range(len(cells)), "mixed": pd.Series(cells, dtype=object)})
    with pytest.raises(RowError, match=said.format("mixed")):
        ColumnEncoder().fit(table)
    with pytest.raises(RowError, match=said.format("x1")):
        ColumnEncoder().fit(table.to_numpy(dtype=object))


def test_a_column_of_objects_is_refused():
    table = pd.DataFrame({"x": [0, 1], "odd": [1.0, {2}]})
    with pytest.raises(TypeError, match="row 1, column 'odd': every argument must be a string"):
        ColumnEncoder().fit(table)


# --- Decimals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(38, 20), pa.decimal128(12, 2), pa.decimal256(76, 40), pa.decimal128(9, -3)],
)
def test_decimals_are_the_nearest_floats(kind):
    rng = np.random.default_rng(0)
    digits = ["".join(map(str, rng.integers(0, 10, kind.precision))) for _ in range(300)]
    numbers = [
        Decimal(f"-{d}" if rng.random() < 0.5 else d).scaleb(-kind.scale, WIDE) for d in digits
    ]
    table = pa.table({"x": pa.array([*numbers, None], kind)})
    exact = pa.table({"x": [*map(float, numbers), None]})
    raw = ColumnEncoder(scale=False, bounded=False)
    np.testing.assert_array_equal(raw.fit(table).transform(table), raw.fit(exact).transform(exact))


@pytest.mark.parametrize(
    ("value", "impute", "said"),
    [
        (np.inf, True, "is inf, which is not finite"),
        (-np.inf, False, "is -inf, which is not finite"),
        (np.nan, False, "is nan, a missing value"),
    ],
)
def test_a_wrong_number_of_an_array_is_named(value, impute, said):
    with pytest.raises(RowError, match=f"X, row 1: column 'x0' {said}"):
        ColumnEncoder(impute=impute).fit(np.array([[1.0, 1.0], [value, 2.0]]))
