# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.opdef.attributes import Axes as Axes
from structir.opdef.attributes import Axis as Axis
from structir.opdef.attributes import Counts as Counts
from structir.opdef.attributes import DType as DType
from structir.opdef.attributes import Ints as Ints
from structir.opdef.attributes import Layout as Layout
from structir.opdef.attributes import Number as Number
from structir.opdef.attributes import Numbers as Numbers
from structir.opdef.attributes import Operands as Operands
from structir.opdef.attributes import Scalar as Scalar
from structir.opdef.attributes import Size as Size
from structir.opdef.attributes import SizeOrSizes as SizeOrSizes
from structir.opdef.attributes import Sizes as Sizes
from structir.opdef.define import Declaration as Declaration
from structir.opdef.define import op as op
from structir.opdef.examples import f16 as f16
from structir.opdef.examples import f32 as f32
from structir.opdef.examples import i32 as i32
from structir.opdef.examples import i64 as i64
from structir.opdef.opaque import opaque_op as opaque_op
