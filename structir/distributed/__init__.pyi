# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.distributed.plan import Plan as Plan
from structir.distributed.plan import Shard as Shard
from structir.distributed.planning import plan as plan
from structir.distributed.sharded import Sharded as Sharded
from structir.distributed.sharded import shard as shard
