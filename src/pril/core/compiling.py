"""How functions are compiled: the ways that numba offers, each with what it buys.

A function that is called from Python is an `entry`, and its code is kept on disk. The others are
compiled into it. Options that are not in numba's guide are here because a benchmark needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from pril.core.code_cache import cached

_njit: Any = njit  # its types do not know `_nrt`

# Without numba's runtime, which counts references to arrays: a row of an `OrderedLogit` stream
# would take half as long again, and so would `evaluate.progressive`. Such a function must not
# allocate, and must not return an array to a function that has the runtime.
BARE: Any = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True}
# Without a wrapper for Python, which nobody calls: the first `fit` would take longer.
INNER: Any = BARE | {"no_cpython_wrapper": True}
# Inlined: a pass of `OrderedLogit` would take three times as long.
INLINE: Any = INNER | {"forceinline": True}

entry = cached(**BARE)  # called from Python
alone = cached(**BARE | {"nogil": False})  # likewise, and no other thread of Python runs meanwhile
own_function = _njit(**INNER)  # too long, or called too rarely, to be inlined
part_of_loop = _njit(**INLINE)
# Inlined by numba itself: no other way returns an array without the runtime, and the first `fit`
# takes a seventh less.
inserted = _njit(inline="always", _nrt=False)

# Inlined, and a division by zero gives infinity or NaN, as in NumPy.
as_numpy = _njit(**INLINE, error_model="numpy")

# Dense sums may be reordered, as in BLAS; NaN and inf keep their meaning. Sparse sums keep their
# order: otherwise the compiler uses gather instructions, which are half as fast.
any_order = _njit(**INLINE, fastmath={"reassoc", "contract", "nsz"})


def on_type(
    table: dict[type, Callable[..., Any]], default: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function whose body is chosen by the type of its first argument.

    Types that are not in the table use the default. The body is inlined and must not allocate.
    """

    def call(first, *rest):
        return table.get(type(first), default)(first, *rest)

    @overload(call, strict=False, jit_options=INLINE)
    def pick(first, *rest):
        return table.get(getattr(first, "instance_class", None), default)

    return call


def prefetch(array, i):
    """Tell the processor that element i of a contiguous array will be read soon.

    Without it, a shuffled pass takes 1.3 times as long over dense rows, 1.6 times over sparse ones.
    """


@intrinsic
def _prefetch_instruction(context, array, i):
    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # A read, of high locality, into the data cache.
        builder.call(function, [place, *(ir.Constant(number, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@overload(prefetch, jit_options=INLINE)
def _prefetch_compiled(array, i):
    return lambda array, i: _prefetch_instruction(array, i)
