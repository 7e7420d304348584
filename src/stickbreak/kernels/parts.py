"""Kernels inside kernels: compiled to the point where a caller takes them in, and no further.

Numba makes each function that a kernel calls ready for Python too: wrappers, optimized code, code
of the machine. Nobody calls it from there, and the kernel that takes it in is optimized as a
whole. So a part ends as the code that a kernel links, in memory and on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import binding
from numba.core import types
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.imputils import lower_constant
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import models, register_model

from .cache import CheckedCache

__all__ = ["Kernel", "choose_by_type"]


class _Library(JITCodeLibrary):
    """Code of a part. It is linked into the code of others, and never run by itself."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Left to the kernel that takes it in."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> bytes:
        """What is kept on disk; numba asks for it by this name."""
        return bytes(self._get_module_for_linking().as_bitcode())

    @classmethod
    def of_bitcode(cls, codegen: Any, name: str, bitcode: bytes) -> _Library:
        """A part as it was kept on disk."""
        library = cls(codegen, name)
        library._final_module = library._shared_module = binding.parse_bitcode(bitcode)
        library._finalized = True
        return library


class _PartCompiler(Compiler):
    """Ends before code of the machine."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function into a library of our own."""
        self.state.library = _Library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.flags.no_compile = True
        return super().compile_extra(func)


class _Key:
    """By which numba knows a part, where other functions have their address."""


class _PartFiles(CompileResultCacheImpl):
    """How parts are kept on disk."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """The opposite of `CompileResult._reduce`."""
        bitcode, description, environment, signature, *_, others = payload
        codegen = target_context.codegen()
        kept: dict[str, Any] = dict.fromkeys(CompileResult._fields)
        kept |= {
            "entry_point": _Key(),
            "environment": environment,
            "fndesc": description,
            "library": _Library.of_bitcode(codegen, description.qualname, bitcode),
            "objectmode": False,
            "referenced_envs": others,
            "signature": signature,
            "target_context": target_context,
            "typing_context": target_context.typing_context,
        }
        return CompileResult(**kept)


class _PartCache(CheckedCache):
    """The cache of one part."""

    _impl_class = _PartFiles  # type: ignore[assignment]
    kind = "part"


class _Part(CPUDispatcher):
    """A kernel as others call it."""

    def add_overload(self, cres: Any) -> None:
        """Remember what was compiled, or found on disk, for the kernels that call it."""
        if cres.entry_point is None:  # compiled just now
            cres = cres._replace(entry_point=_Key())
            self.targetctx.insert_user_function(cres.entry_point, cres.fndesc, [cres.library])
        self.overloads[tuple(cres.signature.args)] = cres


class _KernelType(types.Dispatcher):
    """The type of a kernel, where others name it."""


register_model(_KernelType)(models.OpaqueModel)


@lower_constant(_KernelType)
def _nothing(context: Any, *_: Any) -> Any:
    """No value at all: the address that numba would take is good for this process only."""
    return context.get_dummy_value()


class Kernel(CPUDispatcher):
    """A kernel as Python calls it; other kernels take in its part."""

    @property
    def _numba_type_(self) -> Any:
        return _KernelType(self)

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        options |= {"nopython": True, "error_model": "numpy", "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=options)
        options = options | {"no_cpython_wrapper": True}
        self._part = _Part(function, targetoptions=options, pipeline_class=_PartCompiler)

    def keep(self) -> tuple[CheckedCache, CheckedCache]:
        """Keep what is compiled on disk. Returns the caches."""
        own, of_part = CheckedCache(self.py_func), _PartCache(self.py_func)
        self._cache, self._part._cache = own, of_part  # type: ignore[attr-defined]
        return own, of_part

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What a kernel that calls this one asks for, and then for `get_overload`."""
        return self._part.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """By what numba finds the part."""
        return self._part.get_overload(sig)

    def add_overload(self, cres: Any) -> None:
        """Make a compiled kernel known to Python."""
        super().add_overload(cres)
        # What is raised in a part needs the part's environment. Numba sets it with the address of
        # a function, and a part has none.
        for environment in cres._find_referenced_environments():
            cres.codegen.set_env(environment.env_name, environment)


def choose_by_type(function: Callable[..., Any], bodies: Mapping[type, Any]) -> None:
    """Let kernels call `function`, which is the part of bodies[type of the first argument]."""

    def body_of(kind: Any) -> Any:
        body = bodies.get(getattr(kind, "instance_class", None))  # type: ignore[arg-type]
        return None if body is None else body.compile()

    class Choice(AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            body = body_of(args[0])
            if body is None:
                return None
            return types.Dispatcher(body).get_call_type(self.context, args, kws)

        def get_impl_key(self, sig: Any) -> Any:
            return body_of(sig.args[0]).get_overload(sig)

    infer_global(function, types.Function(Choice))
