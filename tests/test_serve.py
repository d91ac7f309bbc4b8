"""A model in a service: many threads ask one stream, by Python and by HTTP."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import pril

GRADES = ["poor", "fair", "good", "great"]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"size": rng.normal(50, 20, 300), "town": rng.choice(["Oslo", "Rome"], 300)}
    )
    grade = np.digitize((table["size"] - 50) / 20 + (table["town"] == "Oslo"), [-1.0, 0.0, 1.0])
    steps = [("columns", pril.ColumnEncoder()), ("learner", pril.OrderedLogit(classes=GRADES))]
    return pril.Pipeline(steps).fit(table, np.array(GRADES)[grade]), table


def test_answers_from_many_threads_are_those_of_one(model):
    fitted, table = model
    stream, rows = fitted.stream(), table.to_dict("records") * 4
    with ThreadPoolExecutor(16) as threads:
        said = list(threads.map(stream.predict_one, rows))
        chances = list(threads.map(stream.predict_proba_one, rows))
    assert said == fitted.predict(pd.DataFrame(rows)).tolist()
    expected = fitted.predict_proba(pd.DataFrame(rows))
    columns = [fitted.classes_.tolist().index(grade) for grade in GRADES]
    found = [[chance[grade] for grade in GRADES] for chance in chances]
    np.testing.assert_array_equal(found, expected[:, columns])


def test_a_web_service_answers_many_requests_at_once(model):
    fastapi = pytest.importorskip("fastapi")
    testing = pytest.importorskip("fastapi.testclient", reason="pip install httpx")
    fitted, table = model
    stream, app = fitted.stream(), fastapi.FastAPI()

    @app.post("/rate")
    def rate(row: dict):
        try:
            return stream.predict_one(row)
        except (TypeError, ValueError) as error:
            raise fastapi.HTTPException(422, str(error)) from error

    rows = table.head(60).to_dict("records")
    with testing.TestClient(app) as client, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda row: client.post("/rate", json=row), rows))
        refused = client.post("/rate", json={"size": "large"})
    assert [answer.json() for answer in answers] == fitted.predict(table.head(60)).tolist()
    assert refused.status_code == 422
    assert "column 'size' is 'large', not a number" in refused.json()["detail"]
