"""The learners under test, read from the package's registry."""

from pril.core.registry import LEARNERS

ONLINE = [learner for learner in LEARNERS if learner.online]
ALL = [learner.load() for learner in ONLINE]
LINEAR = [learner.load() for learner in ONLINE if learner.linear]


def linear(**traits):
    """Return the linear learners that have all of these traits."""
    return [
        cls
        for learner, cls in zip(ONLINE, ALL, strict=True)
        if learner.linear and all(getattr(learner, trait) == traits[trait] for trait in traits)
    ]


def with_variants(classes):
    """Return each learner as it comes and, if it averages, without its average."""
    return [
        cls(**options)
        for cls in classes
        for options in ([{}, {"average": False}] if hasattr(cls(), "average") else [{}])
    ]
