"""The three data sets of the paper: one is generated, two are from the UCI repository."""

from __future__ import annotations

import hashlib
import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.stats import zscore
from sklearn.utils import Bunch, check_random_state

from pril.core.arrays import Array, Seed
from pril.errors import InputError, MissingFileError, UnavailableError, import_extra

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Table = tuple[NDArray[np.float64], NDArray[np.int64]]

__all__ = ["load_abalone", "load_parkinsons", "make_synthetic"]


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
ABALONE = "abalone/abalone.data"
ABALONE_COLUMNS = "length diameter height whole_weight shucked_weight viscera_weight shell_weight"
PARKINSONS = "parkinsons/telemonitoring/parkinsons_updrs.data"
SHA256 = {
    ABALONE: "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
    PARKINSONS: "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
}


def make_synthetic(
    n_samples: int = 10_000, *, noise: float = 0.125, random_state: Seed = None
) -> Table:
    """Generate the paper's synthetic set: five ranks of a saddle over the unit square.

    The rank is the number of b_r in (-inf, -1, -0.1, 0.25, 1) below
    ``10 (x_1 - 0.5) (x_2 - 0.5) + noise``.

    Parameters
    ----------
    n_samples : int, default=10000
        Number of rows.
    noise : float, default=0.125
        Standard deviation of the normal noise.
    random_state : int, RandomState instance or None, default=None
        Generates the rows.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Points, uniform on the unit square.
    y : ndarray of shape (n_samples,)
        Ranks 1 to 5.

    Examples
    --------
    >>> from pril.paper.datasets import make_synthetic
    >>> X, y = make_synthetic(1000, random_state=0)
    >>> X.shape, y.min(), y.max()
    ((1000, 2), np.int64(1), np.int64(5))
    """
    rng = check_random_state(random_state)
    X = rng.uniform(size=(n_samples, 2))
    score = 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5) + rng.normal(scale=noise, size=n_samples)
    # "score > b_r": a score equal to a threshold belongs to the class below it.
    return X, 1 + np.searchsorted([-1, -0.1, 0.25, 1], score, side="left")


def load_abalone(
    *,
    sex: Literal["code", "one-hot"] = "code",
    folder: str | Path | None = None,
    return_X_y: bool = True,
    as_frame: bool = False,
) -> Any:
    """Load Abalone: 4177 shells, rings cut into four ranks (1-7, 8-9, 10-12, 13-29).

    Parameters
    ----------
    sex : {"code", "one-hot"}, default="code"
        Sex as one number (M = 0, F = 1, I = 2, as the paper's eight features want), or as three
        columns.
    folder : str or Path, default=None
        Folder of `abalone.data`. None looks in the folder PRIL_DATA, then in the user's cache, then
        downloads it from the UCI repository.
    return_X_y : bool, default=True
        Whether to return X and y. False returns a :class:`~sklearn.utils.Bunch` with them as `data`
        and `target`, and with `feature_names`, `target_names` and `frame`.
    as_frame : bool, default=False
        Whether X is a pandas DataFrame and y a Series.

    Returns
    -------
    X : ndarray or DataFrame of shape (4177, 8) or (4177, 10)
        Features, not scaled.
    y : ndarray or Series of shape (4177,)
        Ranks 1 to 4.

    Examples
    --------
    >>> from pril.paper.datasets import load_abalone
    >>> X, y = load_abalone()  # doctest: +SKIP
    """
    if sex not in ("code", "one-hot"):
        raise InputError(f"sex must be 'code' or 'one-hot', got {sex!r}")
    raw = np.genfromtxt(_find(ABALONE, folder), delimiter=",", dtype=str)
    flags = raw[:, :1] == ["M", "F", "I"]
    first = flags.astype(float) if sex == "one-hot" else flags.argmax(axis=1)[:, np.newaxis]
    X = np.hstack([first, raw[:, 1:8].astype(float)])
    y = 1 + np.digitize(raw[:, 8].astype(int), [8, 10, 13])
    names = ["sex=M", "sex=F", "sex=I"] if sex == "one-hot" else ["sex"]
    ranks = ["1-7 rings", "8-9 rings", "10-12 rings", "13-29 rings"]
    return _returned(X, y, [*names, *ABALONE_COLUMNS.split()], ranks, return_X_y, as_frame)


def load_parkinsons(
    *,
    drop: Literal["subject", "motor"] = "subject",
    parts: Literal["width", "deciles"] = "width",
    folder: str | Path | None = None,
    return_X_y: bool = True,
    as_frame: bool = False,
) -> Any:
    """Load Parkinsons telemonitoring: 5875 recordings, total UPDRS cut into ten ranks.

    Features are standardised. The paper counts 20 of them, one less than there are.

    Parameters
    ----------
    drop : {"subject", "motor"}, default="subject"
        The column to drop: the patient's number, or motor UPDRS, which is close to the target
        (correlation 0.947). The paper's claims hold only when the patient's number is dropped.
    parts : {"width", "deciles"}, default="width"
        Ten parts of equal width on 7..55, or of equal frequency.
    folder : str or Path, default=None
        Folder of `parkinsons_updrs.data`. None looks in the folder PRIL_DATA, then in the user's
        cache, then downloads it from the UCI repository.
    return_X_y : bool, default=True
        Whether to return X and y. False returns a :class:`~sklearn.utils.Bunch` with them as `data`
        and `target`, and with `feature_names`, `target_names` and `frame`.
    as_frame : bool, default=False
        Whether X is a pandas DataFrame and y a Series.

    Returns
    -------
    X : ndarray or DataFrame of shape (5875, 20)
        Features with mean 0 and standard deviation 1.
    y : ndarray or Series of shape (5875,)
        Ranks 1 to 10.

    Examples
    --------
    >>> from pril.paper.datasets import load_parkinsons
    >>> X, y = load_parkinsons()  # doctest: +SKIP
    """
    if drop not in ("subject", "motor"):
        raise InputError(f"drop must be 'subject' or 'motor', got {drop!r}")
    if parts not in ("width", "deciles"):
        raise InputError(f"parts must be 'width' or 'deciles', got {parts!r}")
    path = _find(PARKINSONS, folder)
    with path.open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
    raw = np.genfromtxt(path, delimiter=",", skip_header=1)
    target = raw[:, 5]
    tenths = np.arange(1, 10) / 10
    cuts = 7 + 48 * tenths if parts == "width" else np.quantile(target, tenths)
    dropped = [5, 0 if drop == "subject" else 4]
    X, y = zscore(np.delete(raw, dropped, axis=1)), 1 + np.digitize(target, cuts)
    ends = [7.0, *cuts, 55.0] if parts == "width" else [target.min(), *cuts, target.max()]
    ranks = [f"total UPDRS {low:.3g}-{high:.3g}" for low, high in pairwise(ends)]
    return _returned(X, y, np.delete(names, dropped).tolist(), ranks, return_X_y, as_frame)


def _returned(
    X: Array, y: Array, names: list[str], ranks: list[str], return_X_y: bool, as_frame: bool
) -> Any:
    """Return a data set in the form that scikit-learn's loaders have."""
    frame = None
    if as_frame:
        import pandas as pd

        frame = pd.DataFrame(X, columns=names).assign(rank=y)
    data, target = (X, y) if frame is None else (frame[names], frame["rank"])
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, frame=frame, feature_names=names, target_names=ranks)


def _find(source: str, folder: str | Path | None) -> Path:
    """Return the path of a file of UCI's, downloaded if it is in none of the folders."""
    name = source.rpartition("/")[2]
    place = os.environ.get("PRIL_DATA") if folder is None else folder
    if place and (path := Path(place, name)).is_file():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != SHA256[source]:
            raise InputError(
                f"{path} is not the file that the paper used: its SHA-256 is {digest[:12]}..., "
                f"expected {SHA256[source][:12]}..."
            )
        return path
    if folder is not None:
        raise MissingFileError(f"folder: there is no {name} in {str(folder)!r}")
    if place and not Path(place).is_dir():
        raise MissingFileError(f"PRIL_DATA: there is no folder {place!r}")
    pooch = import_extra("pooch", f"{name} is fetched by pooch", "data")
    cache = Path(os.environ.get("PRIL_CACHE", pooch.os_cache("pril")))
    try:
        return Path(pooch.retrieve(UCI + source, f"sha256:{SHA256[source]}", name, cache))
    except Exception as error:
        raise UnavailableError(
            f"could not fetch {name} ({type(error).__name__}: {error}); download it by hand "
            f"from {UCI + source} into a folder and set PRIL_DATA to that folder"
        ) from error
