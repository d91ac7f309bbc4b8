"""The learners under test, read from the package's registry."""

from pril.core.registry import LEARNERS

ONLINE = [learner for learner in LEARNERS if learner.online]
ALL = [learner.load() for learner in ONLINE]
LINEAR = [learner.load() for learner in ONLINE if learner.linear]


EXACT_ONLY = {"PRank"}
# The parameter for the step of those that have one: rows of twice the weight want half of it.
STEPS = {"MPRIL": "rate", "PassiveAggressive": "C", "WidrowHoff": "rate"}


def traits_of(learner):
    """Return the traits of a learner: those of the registry, and those that only tests ask for."""
    averages = "average" in learner.load()().get_params()
    more = {"averages": averages, "takes_ranges": learner.name not in EXACT_ONLY}
    return learner._asdict() | more


def linear(**traits):
    """Return the linear learners that have all of these traits."""
    return [
        cls
        for learner, cls in zip(ONLINE, ALL, strict=True)
        if learner.linear and traits.items() <= traits_of(learner).items()
    ]


def with_variants(classes):
    """Return each learner as it comes and, if it averages, without its average."""
    return [
        cls(**options)
        for cls in classes
        for options in ([{}, {"average": False}] if hasattr(cls(), "average") else [{}])
    ]
