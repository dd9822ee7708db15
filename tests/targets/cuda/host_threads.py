"""A device that runs kernels on the host in the form that LLVM gets for GPUs, before it becomes
PTX: the simulator runs the source, and does not show what is generated from it.

A thread of the GPU is a context of the C library (`makecontext`). `launch` resumes each of them in
turn; at a barrier, a context returns to `launch`. All must reach each barrier, or end, in the same
round. Every second round goes from the last thread to the first: a missing barrier shows whichever
thread writes.
"""

import ctypes
import ctypes.util
import mmap
import re
from functools import partial

import llvmlite.binding as llvm
from scipy import special

from structir.targets.cuda.device_text import SIDE
from structir.targets.cuda.simulator import SimulatedDevice
from structir.targets.cuda.translated import translated
from tests.targets.cuda.host_warps import together, with_warps

THREADS, BLOCKS = 64, 2  # of a block, two warps; and of a kernel
NAMES = [f"{name}.{axis}" for name in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz"]
REGISTER = re.compile(r'call i32 @"?llvm\.nvvm\.read\.ptx\.sreg\.(\w+\.\w)"?\(\)')
SHUFFLE = re.compile(r'@"?llvm\.nvvm\.shfl\.sync\.(\w+)\.i32"?\(')
DECLARED = re.compile(r'^declare .*@"?(llvm\.nvvm|__nv_)[^\n]*\n', re.MULTILINE)
LIBRARY = re.compile(r"@\"?__nv_(\w+)\"?")
ENTRY = re.compile(r'define ptx_kernel void @"?(\w+)"?\(')
# Functions of NVIDIA's library that the C library lacks.
MISSING = {
    f"erfinv{end}": ctypes.CFUNCTYPE(kind, kind)(special.erfinv)
    for end, kind in (("", ctypes.c_double), ("f", ctypes.c_float))
}
CONTEXT, STACK = 8192, 1 << 20  # bytes; `ucontext_t` has 968 on x86-64, 4,560 on AArch64
NOTHING = -1
WAIT = """
declare i32 @swapcontext(ptr, ptr)
@lanes = internal global [1024 x i32] zeroinitializer
define internal void @wait() {{
  %state = inttoptr i64 {state} to ptr
  %own = load ptr, ptr %state
  %waits = getelementptr i64, ptr %state, i32 1
  store i64 1, ptr %waits
  %ignored = call i32 @swapcontext(ptr %own, ptr inttoptr (i64 {caller} to ptr))
  ret void
}}
"""
EXCHANGE = """
define internal i32 @shuffle_{mode}(i32 %thread, i32 %mask, i32 %value, i32 %step, i32 %clamp) {{
  %own = getelementptr [1024 x i32], ptr @lanes, i32 0, i32 %thread
  store i32 %value, ptr %own
  call void @wait()
  %lane = and i32 %thread, 31
  %first = and i32 %thread, -32
  %wanted = {wanted}
  %outside = icmp ugt i32 %wanted, 31
  %from = select i1 %outside, i32 %lane, i32 %wanted
  %other = add i32 %first, %from
  %there = getelementptr [1024 x i32], ptr @lanes, i32 0, i32 %other
  %found = load i32, ptr %there
  call void @wait()
  ret i32 %found
}}
"""
WANTED = {
    "bfly": "xor i32 %lane, %step",
    "down": "add i32 %lane, %step",
    "up": "sub i32 %lane, %step",
    "idx": "add i32 0, %step",
}
PIECES = "".join(EXCHANGE.format(mode=mode, wanted=wanted) for mode, wanted in WANTED.items())


def for_the_host(text, state, caller):
    """A module for GPUs as one for the host, whose kernel gets its registers as arguments."""
    text = DECLARED.sub("", text)
    registers = ", ".join(f"i32 %{name}" for name in NAMES)
    text = ENTRY.sub(f"define void @\\1({registers}, ", text)
    text = REGISTER.sub(lambda m: f"add i32 0, %{m[1]}", text)
    text = SHUFFLE.sub(lambda m: f"@shuffle_{m[1]}(i32 %tid.x, ", text)
    text = text.replace('@"llvm.nvvm.barrier0"', "@wait").replace("@llvm.nvvm.barrier0", "@wait")
    called = {}
    for found in re.finditer(r'call (?:\w+ )*(float|double) @"?__nv_(\w+)"?\((.*?)\)', text):
        called[found[2]] = (found[1], found[3].count(",") + 1)
    text = LIBRARY.sub(lambda m: f"@{m[1]}", text)
    declared = [f"declare {k} @{n}({', '.join([k] * c)})" for n, (k, c) in called.items()]
    return "\n".join([text, WAIT.format(state=state, caller=caller), PIECES, *declared])


class HostThreads(SimulatedDevice):
    """Threads of the host as those of a GPU."""

    architecture = "host"
    older = False  # whether warps have no instructions by which to multiply
    threads, blocks, side = THREADS, BLOCKS, SIDE

    def __init__(self):
        super().__init__()
        self.contexts = Contexts()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for name, function in MISSING.items():
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)

    def kernel(self, text):
        if text.known_as not in self._kernels:
            self._kernels[text.known_as] = HostKernel(self, text)
        return self._kernels[text.known_as]

    def prepared(self, launches, stream=0):
        return partial(run, launches)


class Contexts:
    """Contexts of threads, and the memory through which they and `launch` communicate."""

    def __init__(self):
        self.system = ctypes.PyDLL(ctypes.util.find_library("c"))
        self.system.makecontext.restype = None
        self.caller = ctypes.create_string_buffer(CONTEXT)
        self.state = (ctypes.c_int64 * 4)()
        self.stacks, self.places = [], []

    def start(self, count, entry, arguments):
        """Returns the addresses of contexts that call `entry` with the number of the thread and the
        arguments."""
        while len(self.stacks) < count:
            self.stacks.append(mmap.mmap(-1, STACK))
            memory = ctypes.c_char.from_buffer(self.stacks[-1])
            self.places.append(ctypes.addressof(memory))
        # glibc passes 64 bits of each argument.
        words = [ctypes.c_int64(argument) for argument in arguments]
        for thread, place in enumerate(self.places[:count]):
            context = ctypes.c_void_p(place)
            self.system.getcontext(context)
            link = ctypes.addressof(self.caller), place + CONTEXT, 0, STACK - CONTEXT
            (ctypes.c_int64 * 4).from_address(place + 8)[:] = link
            number = ctypes.c_int64(thread)
            self.system.makecontext(context, entry, 1 + len(words), number, *words)
        return self.places[:count]

    def resume(self, place):
        """Whether the context, which continues, waits at a barrier; else it has ended."""
        self.state[:] = place, 0, NOTHING, 0
        self.system.swapcontext(self.caller, ctypes.c_void_p(place))
        _, waits, what, address = self.state
        if what != NOTHING:
            together(what, address)
        return waits


class HostKernel:
    """Machine code for the host."""

    def __init__(self, device, text):
        self.contexts = device.contexts
        entry = "kernel_of_host"
        self.llvm = translated(text, entry, device.older)
        state, caller = map(ctypes.addressof, (self.contexts.state, self.contexts.caller))
        module = llvm.parse_assembly(with_warps(for_the_host(self.llvm, state, caller), state))
        host = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_default_triple().create_target_machine(*host, opt=0)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.entry = ctypes.c_void_p(self.engine.get_function_address(entry))

    def launch(self, blocks, threads, words):
        for block in range(blocks):
            where = 0, 0, block, 0, 0, threads, 1, 1, blocks, 1, 1
            running = self.contexts.start(threads, self.entry, (*where, *words))
            while running:
                waiting = [place for place in running if self.contexts.resume(place)]
                assert len(waiting) in (0, len(running)), "not all threads reach the barrier"
                running = waiting[::-1]


def run(launches):
    for launch in launches:
        words = [*[argument.address for argument in launch.arguments], *launch.sizes]
        launch.kernel.launch(launch.blocks, launch.threads, words)
