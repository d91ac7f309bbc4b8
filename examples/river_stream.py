"""Stream a data set of River: ratings of a president, of which only ranges are known.

Run: python examples/river_stream.py (needs the extra ``river``)
"""

from river import datasets, evaluate, preprocessing

from pril.river import IntervalAccuracy, IntervalMAE, OrderedLogitClassifier

CLASSES = list(range(36, 46))  # approval in percent


def with_ranges():
    for number, (x, approval) in enumerate(datasets.TrumpApproval()):
        percent = min(max(round(approval), CLASSES[0]), CLASSES[-1])
        width = number % 3  # some days are known exactly, others up to two percent
        del x["ordinal_date"]  # a clock, not a feature
        yield x, (max(percent - width, CLASSES[0]), min(percent + width, CLASSES[-1]))


def main():
    model = preprocessing.StandardScaler() | OrderedLogitClassifier(CLASSES, half_life=100.0)
    metric = IntervalMAE(CLASSES) + IntervalAccuracy(CLASSES)
    evaluate.progressive_val_score(with_ranges(), model, metric, print_every=200)
    print(model["OrderedLogitClassifier"].model.thresholds_)


if __name__ == "__main__":
    main()
