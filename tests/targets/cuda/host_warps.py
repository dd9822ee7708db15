"""What the threads of a warp do together, among threads of the host: reading matrices, and
multiplying them, as the description of PTX tells which lane has what."""

import ctypes
import re

import ml_dtypes
import numpy as np

LOADS = {"": 0, ".trans": 1}
PRODUCTS = {"f32.f32": (2, "<2 x half>"), "bf16": (3, "i32"), "tf32": (4, "i32")}
TF32 = 4
DTYPES = {2: np.float16, 3: ml_dtypes.bfloat16}
INSTRUCTION = re.compile(
    r'@"?llvm\.nvvm\.(?:ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.b16\.p3'
    r'|mma\.m16n8k(?:16|8)\.row\.col\.(f32\.f32|bf16|tf32))"?\('
)
ROUND = re.compile(r'@"?llvm\.nvvm\.ff2(b?f)16x2\.rn"?\(')
TOGETHER = """
@words = internal global [1024 x [10 x i32]] zeroinitializer, align 16
define internal void @warp_together(i32 %thread, i32 %what) {{
  call void @wait()
  %lane = and i32 %thread, 31
  %is_first = icmp eq i32 %lane, 0
  br i1 %is_first, label %first, label %after
first:
  %own = getelementptr [1024 x [10 x i32]], ptr @words, i32 0, i32 %thread
  %long = zext i32 %what to i64
  %state = inttoptr i64 {state} to ptr
  %what_field = getelementptr i64, ptr %state, i32 2
  store i64 %long, ptr %what_field
  %words_field = getelementptr i64, ptr %state, i32 3
  store ptr %own, ptr %words_field
  br label %after
after:
  call void @wait()
  ret void
}}
"""
EACH = """
define internal {{{kind}, {kind}, {kind}, {kind}}} @warp_{what}(i32 %thread, {parameters}) {{
  %own = getelementptr [1024 x [10 x i32]], ptr @words, i32 0, i32 %thread
  {stores}
  call void @warp_together(i32 %thread, i32 {what})
  %found = load {{{kind}, {kind}, {kind}, {kind}}}, ptr %own
  ret {{{kind}, {kind}, {kind}, {kind}}} %found
}}
"""
ROUNDED = """
define internal i32 @rounded_word(float %x) {
  %bits = bitcast float %x to i32
  %above = add i32 %bits, 4096
  %word = and i32 %above, -8192
  ret i32 %word
}
"""
PAIR = """
define internal <2 x {kind}> @{name}(float %high, float %low) {{
  %a = {rounded} %low{to}
  %b = {rounded} %high{to}
  %c = insertelement <2 x {kind}> undef, {kind} %a, i32 0
  %d = insertelement <2 x {kind}> %c, {kind} %b, i32 1
  ret <2 x {kind}> %d
}}
"""
# Without an instruction for it, LLVM calls a function that C libraries of older compilers lack.
BRAIN = """
define internal bfloat @brain(float %x) {
  %bits = bitcast float %x to i32
  %last = lshr i32 %bits, 16
  %odd = and i32 %last, 1
  %half = add i32 %odd, 32767
  %above = add i32 %bits, %half
  %high = lshr i32 %above, 16
  %word = trunc i32 %high to i16
  %is_nan = fcmp uno float %x, %x
  %chosen = select i1 %is_nan, i16 32704, i16 %word
  %result = bitcast i16 %chosen to bfloat
  ret bfloat %result
}
"""
BRAIN_CALL = {"rounded": "call bfloat @brain(float", "to": ")"}
PAIRS = [
    PAIR.format(name="pair_f16", kind="half", rounded="fptrunc float", to=" to half"),
    PAIR.format(name="pair_bf16", kind="bfloat", **BRAIN_CALL) + BRAIN,
]


def with_warps(text, state):
    """A module whose instructions of warps ask for `together` in the state of the contexts."""

    def called(found):
        turned, product = found.groups()
        return f"@warp_{PRODUCTS[product][0] if product else LOADS[turned or '']}(i32 %tid.x, "

    text = re.sub(r'@"?llvm\.nvvm\.f2tf32\.rna"?\(', "@rounded_word(", text)
    text = ROUND.sub(lambda m: f"@pair_{m[1]}16(", INSTRUCTION.sub(called, text))
    pieces = [each("i32", what, ["ptr addrspace(3)"]) for what in LOADS.values()]
    pieces += [each("float", what, [k] * 6 + ["float"] * 4) for what, k in PRODUCTS.values()]
    pieces += [*PAIRS, ROUNDED]
    wanted = [p for p in pieces if re.search(r"@(\w+)\(", p)[1] in text]
    return "\n".join([text, *wanted, *([TOGETHER.format(state=state)] if wanted else [])])


def each(kind, what, kinds):
    """One lane's part: its words into a table, and the first four back."""
    stores = [
        f"%p{k} = getelementptr i32, ptr %own, i32 {k}\n  store {own} %a{k}, ptr %p{k}, align 4"
        for k, own in enumerate(kinds)
    ]
    parameters = ", ".join(f"{own} %a{k}" for k, own in enumerate(kinds))
    return EACH.format(kind=kind, what=what, parameters=parameters, stores="\n  ".join(stores))


def together(what, address):
    """What a warp does, from the words of all lanes."""
    memory = (ctypes.c_char * 1280).from_address(address)
    words = np.frombuffer(memory, np.uint32).reshape(32, 10)
    if what == TF32:
        words[:, :4] = multiplied_singles(words)
    else:
        words[:, :4] = multiplied(words, DTYPES[what]) if what > 1 else loaded(words, what)


def loaded(words, turned):
    """What lanes get: of the matrix j, whose rows lanes 8 j to 8 j + 7 point to."""
    rows = words[:, :2].copy().view(np.uint64)[:, 0]
    assert not (rows % 16).any()
    memory = np.array([(ctypes.c_uint16 * 8).from_address(int(row))[:] for row in rows], np.uint16)
    matrices = memory.reshape(4, 8, 8).swapaxes(1, 2) if turned else memory.reshape(4, 8, 8)
    pairs = np.ascontiguousarray(matrices).reshape(4, 32, 2)
    return pairs.view(np.uint32)[..., 0].T


def multiplied(words, dtype):
    """What lanes get of d = a b + c, where `groupID` is lane / 4 and `threadID_in_group` the
    rest."""
    a, b, c = (np.zeros(shape, np.float32) for shape in ((16, 16), (16, 8), (16, 8)))
    factors = words[:, :6].copy().view(dtype).astype(np.float32)
    totals = words[:, 6:].copy().view(np.float32)
    group, member = np.arange(32) >> 2, np.arange(32) % 4
    places = []
    for i in range(8):
        row = group if i < 2 or 4 <= i < 6 else group + 8
        a[row, member * 2 + (i & 1) + (8 if i >= 4 else 0)] = factors[:, i]
    for i in range(4):
        b[member * 2 + (i & 1) + (8 if i >= 2 else 0), group] = factors[:, 8 + i]
        places.append((group if i < 2 else group + 8, member * 2 + (i & 1)))
        c[places[i]] = totals[:, i]
    made = a @ b + c
    return np.stack([made[place] for place in places], 1).astype(np.float32).view(np.uint32)


def multiplied_singles(words):
    """The same of m16n8k8 on tf32, of whose bits the last 13 are not looked at."""
    a, b, c = (np.zeros(shape, np.float32) for shape in ((16, 8), (8, 8), (16, 8)))
    factors = (words[:, :6] & 0xFFFFE000).copy().view(np.float32)
    totals = words[:, 6:].copy().view(np.float32)
    group, member = np.arange(32) >> 2, np.arange(32) % 4
    for i in range(4):
        a[group if i in (0, 2) else group + 8, member if i < 2 else member + 4] = factors[:, i]
    for i in range(2):
        b[member if i == 0 else member + 4, group] = factors[:, 4 + i]
    places = [(group if i < 2 else group + 8, member * 2 + (i & 1)) for i in range(4)]
    for i, place in enumerate(places):
        c[place] = totals[:, i]
    made = a @ b + c
    return np.stack([made[place] for place in places], 1).astype(np.float32).view(np.uint32)
