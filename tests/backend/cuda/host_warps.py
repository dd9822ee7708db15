"""What the threads of a warp do together, among threads of the host: reading matrices, and
multiplying them, as the description of PTX tells which lane has what."""

import ctypes
import re
import threading

import ml_dtypes
import numpy as np

CALL = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
LOADS = {"": 0, ".trans": 1}
PRODUCTS = {"f32.f32": (2, "<2 x half>"), "bf16": (3, "i32")}
DTYPES = {2: np.float16, 3: ml_dtypes.bfloat16}
INSTRUCTION = re.compile(
    r'@"?llvm\.nvvm\.(?:ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.b16\.p3'
    r'|mma\.m16n8k16\.row\.col\.(f32\.f32|bf16))"?\('
)
ROUND = re.compile(r'@"?llvm\.nvvm\.ff2(b?f)16x2\.rn"?\(')
LOAD = """
define internal {{i32, i32, i32, i32}} @warp_{what}(i32 %thread, ptr addrspace(3) %row) {{
  %words = alloca [10 x i32]
  %general = addrspacecast ptr addrspace(3) %row to ptr
  store ptr %general, ptr %words
  call void inttoptr (i64 {address} to ptr)(i32 %thread, i32 {what}, ptr %words)
  %found = load {{i32, i32, i32, i32}}, ptr %words
  ret {{i32, i32, i32, i32}} %found
}}
"""
MULTIPLY = """
define internal {{float, float, float, float}} @warp_{what}(i32 %thread, {parameters}) {{
  %words = alloca [10 x i32]
  {stores}
  call void inttoptr (i64 {address} to ptr)(i32 %thread, i32 {what}, ptr %words)
  %found = load {{float, float, float, float}}, ptr %words
  ret {{float, float, float, float}} %found
}}
"""
PAIR = """
define internal <2 x {kind}> @{name}(float %high, float %low) {{
  %a = fptrunc float %low to {kind}
  %b = fptrunc float %high to {kind}
  %c = insertelement <2 x {kind}> undef, {kind} %a, i32 0
  %d = insertelement <2 x {kind}> %c, {kind} %b, i32 1
  ret <2 x {kind}> %d
}}
"""


def with_warps(text, address):
    """A module whose instructions of warps are calls of what stands at an address."""

    def called(found):
        turned, product = found.groups()
        return f"@warp_{PRODUCTS[product][0] if product else LOADS[turned or '']}(i32 %tid.x, "

    text = ROUND.sub(lambda m: f"@pair_{m[1]}16(", INSTRUCTION.sub(called, text))
    pieces = [LOAD.format(what=what, address=address) for what in LOADS.values()]
    for what, held in PRODUCTS.values():
        kinds = [held] * 6 + ["float"] * 4
        stores = [
            f"%p{k} = getelementptr i32, ptr %words, i32 {k}\n  store {kind} %a{k}, ptr %p{k}"
            for k, kind in enumerate(kinds)
        ]
        parameters = ", ".join(f"{kind} %a{k}" for k, kind in enumerate(kinds))
        facts = {"what": what, "address": address, "parameters": parameters}
        pieces.append(MULTIPLY.format(stores="\n  ".join(stores), **facts))
    pieces += [
        PAIR.format(name=f"pair_{k}16", kind=n) for k, n in (("f", "half"), ("bf", "bfloat"))
    ]
    return "\n".join([text, *[p for p in pieces if re.search(r"@(\w+)\(", p)[1] in text]])


class Warps:
    """The warps of a block: each lane gives ten words, and gets the first four back."""

    def __init__(self):
        self.words = np.zeros((32, 32, 10), np.uint32)
        self.barriers = [threading.Barrier(32) for _ in range(32)]
        self.callback = CALL(self.called)
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value

    def called(self, thread, what, address):
        """One lane's part."""
        warp, lane = divmod(thread, 32)
        own = np.frombuffer((ctypes.c_char * 40).from_address(address), np.uint32)
        self.words[warp, lane] = own
        self.barriers[warp].wait()
        held = self.words[warp].copy()
        self.barriers[warp].wait()
        own[:4] = multiplied(held, lane, DTYPES[what]) if what > 1 else loaded(held, lane, what)


def loaded(held, lane, turned):
    """What a lane gets: of the matrix j, whose rows lanes 8 j to 8 j + 7 point to."""
    rows = held[:, :2].copy().view(np.uint64)[:, 0]
    assert not (rows % 16).any()
    memory = np.array([(ctypes.c_uint16 * 8).from_address(int(row))[:] for row in rows], np.uint16)
    matrices = memory.reshape(4, 8, 8).swapaxes(1, 2) if turned else memory.reshape(4, 8, 8)
    return np.ascontiguousarray(matrices).reshape(4, 32, 2)[:, lane].copy().view(np.uint32)[:, 0]


def multiplied(held, lane, dtype):
    """What a lane gets of d = a b + c, where `groupID` is lane / 4 and `threadID_in_group` the
    rest."""
    a, b = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32)
    factors = held[:, :6].copy().view(dtype).astype(np.float32)
    for other in range(32):
        group, member = other >> 2, other % 4
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            a[row, member * 2 + (i & 1) + (8 if i >= 4 else 0)] = factors[other, i]
        for i in range(4):
            b[member * 2 + (i & 1) + (8 if i >= 2 else 0), group] = factors[other, 8 + i]
    c, group, member = held[lane, 6:].copy().view(np.float32), lane >> 2, lane % 4
    places = [(group if i < 2 else group + 8, member * 2 + (i & 1)) for i in range(4)]
    made = a @ b
    return np.array([made[p] + c[i] for i, p in enumerate(places)], np.float32).view(np.uint32)
