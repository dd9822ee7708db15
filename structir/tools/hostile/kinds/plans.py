"""Plans in the cache, changed under a valid checksum, are rejected or usable; nothing in them is
executed as Python."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from structir.runtime.executable import options_text
from structir.runtime.files.cached_plans import CachedPlans
from structir.system import cache as disk
from structir.tools.hostile.mutation import changed_bytes, mutated
from structir.tools.hostile.private_cache import planted_code, require_no_marker
from structir.tools.hostile.stored_model import model, stored_plans, use


def sample(random: Random) -> bytes:
    """Generates the data of a cache entry."""
    original = stored_plans()[1].data
    if random.random() < 0.15:
        return changed_bytes(original, random)
    plans: Any = json.loads(original)
    for _ in range(random.choice([1, 1, 2, 3])):
        plans = mutated(plans, random, [planted_code()])
    return json.dumps(plans).encode()


def check(data: bytes) -> None:
    """Reads the plans and prepares them for a call."""
    key, entry = stored_plans()
    store = disk.store()
    assert store is not None
    store.write(key, disk.CacheEntry(entry.facts, data))
    use(CachedPlans(model(), options_text(False, False)).functions())
    require_no_marker()
