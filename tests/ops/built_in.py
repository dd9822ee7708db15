"""The ops that the package declares.

Test modules declare ops too, when they are imported. Which of them are registered depends on the
order in which modules are collected, and so would the cases of a test of every registered op.
"""

from structir import ops
from structir.ir import Op, registered_ops
from structir.tools.calls import is_built_in_op

ops.load()
BUILT_IN_OPS: dict[str, Op] = {op.name: op for op in registered_ops() if is_built_in_op(op)}
