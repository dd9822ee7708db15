"""Generates random StructInfo over a few symbolic dims; short constructors."""

from hypothesis import strategies as st

from structir.ir.dims import Dim, floordiv, sym
from structir.ir.dtype import DtypeVar
from structir.ir.struct_info import (
    OBJECT,
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

N, M, K = sym("n"), sym("m"), sym("k")
DTYPE_VARS = (DtypeVar("S"), DtypeVar("T"))
DTYPES = st.sampled_from(["float32", "int64", "bool", None, *DTYPE_VARS])
VDEVICES = st.sampled_from([None, None, "llvm", "cuda:1"])
DIMS = st.sampled_from([0, 1, 2, 4, N, M, K, N + 1, 2 * N, N * M, N + M, floordiv(N, 2)])


def tensor(*dims: Dim, dtype: str | None = "float32") -> TensorStructInfo:
    return TensorStructInfo(dims, dtype)


def function(*params: StructInfo, ret: StructInfo = OBJECT, purity: bool = True) -> FuncStructInfo:
    return FuncStructInfo(params, ret, purity)


def ranks() -> st.SearchStrategy[int | None]:
    return st.sampled_from([None, 0, 1, 2, 3])


def sizes() -> st.SearchStrategy[tuple[Dim, ...]]:
    return st.lists(DIMS, max_size=3).map(tuple)


LEAVES: st.SearchStrategy[StructInfo] = st.one_of(
    st.just(OBJECT),
    st.builds(PrimStructInfo, st.sampled_from(["int64", "float32", "bool", *DTYPE_VARS])),
    st.builds(lambda value: PrimStructInfo("int64", value), DIMS),
    st.builds(ShapeStructInfo, sizes()),
    st.builds(lambda ndim: ShapeStructInfo(ndim=ndim), ranks()),
    st.builds(
        lambda dims, dtype, vdevice: TensorStructInfo(dims, dtype, vdevice=vdevice),
        sizes(),
        DTYPES,
        VDEVICES,
    ),
    st.builds(
        lambda dtype, ndim, vdevice: TensorStructInfo(None, dtype, ndim, vdevice=vdevice),
        DTYPES,
        ranks(),
        VDEVICES,
    ),
)


NAMES = ("w", "b", "in")


def tuples(inner: st.SearchStrategy[StructInfo]) -> st.SearchStrategy[StructInfo]:
    """Tuples, also with named fields."""
    fields = st.lists(inner, max_size=3).map(tuple)
    orders = st.sampled_from([None, NAMES, NAMES, NAMES[::-1], ("x.y", "w", "\u00e9")])
    return st.builds(
        lambda infos, names: TupleStructInfo(infos, named(infos, names)), fields, orders
    )


def named(infos: tuple[StructInfo, ...], names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if names is None else names[: len(infos)]


def _compound(inner: st.SearchStrategy[StructInfo]) -> st.SearchStrategy[StructInfo]:
    several = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        tuples(inner),
        st.builds(FuncStructInfo, several, inner, st.booleans()),
        st.builds(lambda ret, purity: FuncStructInfo(None, ret, purity), inner, st.booleans()),
    )


INFOS = st.recursive(LEAVES, _compound, max_leaves=6)
"""Any info."""

DATA = st.recursive(
    LEAVES,
    tuples,
    max_leaves=6,
)
"""Infos without functions, whose parameters Relax compares like results."""
