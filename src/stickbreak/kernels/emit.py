"""Vectors of eight doubles or floats in numba: types, and functions given by their instructions.

Imported when the first kernel is compiled, because it needs numba.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, config, types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

__all__ = ["make_operation"]

DOUBLE, LONG, INDEX, BYTE = ir.DoubleType(), ir.IntType(64), ir.IntType(32), ir.IntType(8)
VECTOR, LONGS, INDICES = ir.VectorType(DOUBLE, 8), ir.VectorType(LONG, 8), ir.VectorType(INDEX, 8)
SINGLES = ir.VectorType(ir.FloatType(), 8)
NUMBERS = types.float64, types.float32, types.int64


class Eight(types.Type):
    """Eight doubles, or eight floats."""

    def __init__(self, name: str, held: ir.VectorType) -> None:
        super().__init__(name=name)
        self.held = held


EIGHT, EIGHT_FLOATS = Eight("Eight", VECTOR), Eight("EightFloats", SINGLES)


@register_model(Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Eight) -> None:
        super().__init__(manager, kind, kind.held)


class Code:
    """Writes the instructions of operations: llvmlite's builder, with short names."""

    def __init__(self, context: Any, builder: ir.IRBuilder, array_types: dict[int, Any]) -> None:
        self.context, self.builder, self._array_types = context, builder, array_types

    def pointer(self, array: Any, at: Any) -> Any:
        """Address of number `at` of an array, as if it were flat."""
        kind = self._array_types[id(array)]
        return self.builder.gep(
            self.context.make_array(kind)(self.context, self.builder, array).data, [at]
        )

    def eight(self, array: Any, at: Any) -> Any:
        """Address of the eight numbers that start at `at`."""
        kind = SINGLES if self._is_single(array) else VECTOR
        return self.builder.bitcast(self.pointer(array, at), kind.as_pointer())

    def load(self, array: Any, at: Any) -> Any:
        """Eight doubles from an array of doubles or floats."""
        if self._is_single(array):
            return self.builder.fpext(self.builder.load(self.eight(array, at), align=4), VECTOR)
        return self.builder.load(self.eight(array, at), align=8)

    def store(self, array: Any, at: Any, value: Any) -> Any:
        """Write eight doubles; an array of floats takes them rounded."""
        if self._is_single(array):
            rounded = value if value.type == SINGLES else self.builder.fptrunc(value, SINGLES)
            return self.builder.store(rounded, self.eight(array, at), align=4)
        return self.builder.store(value, self.eight(array, at), align=8)

    def store_first(self, array: Any, at: Any, value: Any, size: int) -> Any:
        """Write the first numbers of a vector of floats to an array of such."""
        kind = ir.VectorType(ir.FloatType(), size)
        some = self.builder.shuffle_vector(
            value, value, ir.Constant(ir.VectorType(INDEX, size), list(range(size)))
        )
        place = self.builder.bitcast(self.pointer(array, at), kind.as_pointer())
        return self.builder.store(some, place, align=4)

    def whole(self, value: int) -> Any:
        """A whole number."""
        return LONG(value)

    def prefetch(self, array: Any, at: Any) -> Any:
        """Ask for the cache line of number `at`, for reading, to be kept close."""
        place = self.builder.bitcast(self.pointer(array, at), BYTE.as_pointer())
        function = ir.FunctionType(ir.VoidType(), [place.type, INDEX, INDEX, INDEX])
        wanted = cgutils.get_or_insert_function(self.builder.module, function, "llvm.prefetch.p0i8")
        return self.builder.call(wanted, [place, INDEX(0), INDEX(3), INDEX(1)])

    def single(self, value: Any) -> Any:
        """Doubles rounded to floats."""
        return self.builder.fpext(self.builder.fptrunc(value, SINGLES), VECTOR)

    def load_floats(self, array: Any, at: Any) -> Any:
        """Eight floats from an array of floats, or doubles rounded."""
        if self._is_single(array):
            return self.builder.load(self.eight(array, at), align=4)
        return self.floats(self.load(array, at))

    def floats(self, value: Any) -> Any:
        """Eight floats, of doubles or of one."""
        return self.builder.fptrunc(value if value.type == VECTOR else self.spread(value), SINGLES)

    def double(self, value: Any) -> Any:
        """A double, of a float."""
        return self.builder.fpext(value, DOUBLE)

    def doubles(self, value: Any) -> Any:
        """Eight doubles, of floats."""
        return self.builder.fpext(value, VECTOR)

    def _is_single(self, array: Any) -> bool:
        return bool(self._array_types[id(array)].dtype == types.float32)

    def steps(self, array: Any, at: Any, step: Any) -> list[Any]:
        """Addresses of eight numbers each, at `at`, at + step, and so on, eight times."""
        return [
            self.eight(array, self.builder.add(at, self.builder.mul(step, LONG(s))))
            for s in range(8)
        ]

    def places(self, array: Any, at: Any, places: Any) -> list[Any]:
        """Addresses of eight numbers each, at at + places[s], for eight places."""
        found = [self.builder.load(self.pointer(places, LONG(s))) for s in range(8)]
        return [self.eight(array, self.builder.add(at, place)) for place in found]

    def spread(self, value: Any) -> Any:
        """The same number, eight times."""
        one = self.builder.insert_element(VECTOR(ir.Undefined), value, INDEX(0))
        return self.builder.shuffle_vector(one, VECTOR(ir.Undefined), INDICES([0] * 8))

    def like(self, value: Any, kind: Any) -> Any:
        """A double as a vector of a kind; other values as they are."""
        if value.type != DOUBLE:
            return value
        return self.spread(value) if kind == VECTOR else self.floats(value)

    def shuffle(self, first: Any, second: Any, items: list[int]) -> Any:
        """Eight of the sixteen numbers in two vectors."""
        return self.builder.shuffle_vector(first, second, INDICES(items))

    def item(self, vector: Any, which: int) -> Any:
        """One of the eight numbers."""
        return self.builder.extract_element(vector, INDEX(which))

    def intrinsic(self, name: str, *arguments: Any) -> Any:
        """Call an intrinsic function of the compiler."""
        kind = arguments[0].type
        suffix = {VECTOR: "v8f64", SINGLES: "v8f32"}.get(kind, "f64")
        function = ir.FunctionType(kind, [a.type for a in arguments])
        return self.builder.call(
            cgutils.get_or_insert_function(self.builder.module, function, f"{name}.{suffix}"),
            arguments,
        )

    def as_int(self, value: Any) -> Any:
        """Doubles as bits."""
        return self.builder.bitcast(value, LONGS if value.type == VECTOR else LONG)

    def as_float(self, value: Any) -> Any:
        """Bits as doubles."""
        return self.builder.bitcast(value, VECTOR if value.type == LONGS else DOUBLE)

    def bits(self, value: int, like: Any) -> Any:
        """An integer, eight times if `like` is a vector."""
        return LONGS([value] * 8) if like.type == VECTOR else LONG(value)

    def number(self, value: float, like: Any) -> Any:
        """A double, eight times if `like` is a vector."""
        return VECTOR([value] * 8) if like.type == VECTOR else DOUBLE(value)


def make_operation(function: Callable[..., Any], emit: Callable[..., Any], gives: str) -> Any:
    """A numba intrinsic that emits instructions; `function` if compilation is switched off."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function

    def typed(_: Any, *arguments: Any) -> Any:
        kinds = [_argument(kind) for kind in arguments]
        if None in kinds:
            return None
        wide = next((kind for kind in kinds if isinstance(kind, Eight)), None)
        result = {
            "eight": EIGHT,
            "floats": EIGHT_FLOATS,
            "one": types.float64,
            "none": types.void,
            "same": wide or types.float64,
        }[gives]

        def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
            arrays = {
                id(value): kind
                for kind, value in zip(kinds, values, strict=True)
                if isinstance(kind, types.Array)
            }
            code = Code(context, builder, arrays)
            found = emit(code, *(v if wide is None else code.like(v, wide.held) for v in values))
            return context.get_dummy_value() if result == types.void else found

        return result(*kinds), generate

    signature = inspect.signature(function)
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    typed.__signature__ = signature.replace(parameters=[context, *signature.parameters.values()])  # type: ignore[attr-defined]
    return intrinsic(typed)


def _argument(kind: Any) -> Any:
    """The type in which an argument is passed; None if it cannot be used."""
    if isinstance(kind, types.Array):
        return kind if kind.layout == "C" and kind.dtype in NUMBERS else None
    if isinstance(kind, types.Integer):
        return types.int64
    if isinstance(kind, Eight):
        return kind
    return types.float64 if isinstance(kind, types.Float) else None


# ---- + - * / -------------------------------------------------------------------------------------
def _define_operators() -> None:
    """Operators on two vectors, or on a vector and a number: one instruction each."""
    for sign, name in (
        (operator.add, "fadd"),
        (operator.sub, "fsub"),
        (operator.mul, "fmul"),
        (operator.truediv, "fdiv"),
    ):
        signatures = [
            signature(kind, *pair)
            for kind in (EIGHT, EIGHT_FLOATS)
            for pair in ((kind, kind), (kind, types.float64), (types.float64, kind))
        ]
        infer_global(sign)(type(f"Eight_{name}", (ConcreteTemplate,), {"cases": signatures}))
        for each in signatures:
            lower_builtin(sign, *each.args)(_instruction(name))


def _instruction(name: str) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        code, kind = Code(context, builder, {}), typed.return_type.held
        return getattr(builder, name)(*(code.like(value, kind) for value in values))

    return generate


if not config.DISABLE_JIT:  # type: ignore[attr-defined]
    _define_operators()
