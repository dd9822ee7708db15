"""Numbers, dtypes and the array type of the namespace."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from structir.tracing.array import TracedArray

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
euler_gamma = np.euler_gamma
newaxis = None
bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
bfloat16 = ml_dtypes.bfloat16
floating, integer, number = np.floating, np.integer, np.number
issubdtype = np.issubdtype
single, double, float_, int_, uint = np.float32, np.float64, np.float32, np.int32, np.uint32
signedinteger, unsignedinteger, inexact, generic = (
    *(np.signedinteger, np.unsignedinteger, np.inexact, np.generic),
)
s_, index_exp = np.s_, np.index_exp
isscalar, promote_types, iterable = np.isscalar, np.promote_types, np.iterable
set_printoptions, printoptions = np.set_printoptions, np.printoptions
dtype = np.dtype
ndarray = TracedArray
__all__ = [
    *("pi", "e", "inf", "nan", "euler_gamma", "newaxis", "bool_", "bfloat16"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "floating", "integer", "number"),
    *("issubdtype", "dtype", "ndarray", "single", "double", "float_", "int_", "uint"),
    *("signedinteger", "unsignedinteger", "inexact", "generic", "s_", "index_exp"),
    *("isscalar", "promote_types", "iterable", "set_printoptions", "printoptions"),
]
