"""A device that runs kernels in the form that LLVM gets for GPUs, before it becomes PTX, by
threads of the host: the simulator runs the texts, and what is made of them it does not show."""

import ctypes
import ctypes.util
import re
import threading
from functools import partial

import llvmlite.binding as llvm
from scipy import special

from structir.backend.cuda.device_text import SIDE
from structir.backend.cuda.simulator import SimulatedDevice
from structir.backend.cuda.translated import translated
from tests.backend.cuda.host_warps import ADDRESS, with_warps

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
WAIT = """
declare i32 @pthread_barrier_wait(ptr)
@lanes = internal global [1024 x i32] zeroinitializer
define internal void @wait() {{
  call i32 @pthread_barrier_wait(ptr inttoptr (i64 {barrier} to ptr))
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


def for_the_host(text, barrier):
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
    return "\n".join([text, WAIT.format(barrier=barrier), PIECES, *declared])


class HostThreads(SimulatedDevice):
    """Threads of the host as those of a GPU."""

    architecture = "host"
    older = False  # whether warps have no instructions by which to multiply
    threads, blocks, side = THREADS, BLOCKS, SIDE

    def __init__(self):
        super().__init__()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.system = ctypes.CDLL(ctypes.util.find_library("c"))
        for name, function in MISSING.items():
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)

    def kernel(self, text):
        if text.known_as not in self._kernels:
            self._kernels[text.known_as] = HostKernel(self, text)
        return self._kernels[text.known_as]

    def prepared(self, launches, stream=0):
        return partial(run, launches)


class HostKernel:
    """Machine code for the host."""

    def __init__(self, device, text):
        self.device = device
        self.barrier = ctypes.create_string_buffer(64)
        entry = "kernel_of_host"
        self.llvm = translated(text, entry, device.older)
        own = for_the_host(self.llvm, ctypes.addressof(self.barrier))
        module = llvm.parse_assembly(with_warps(own, ADDRESS))
        host = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_default_triple().create_target_machine(*host, opt=0)
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        words = len(text.pointers) + bool(text.sites) + len(text.sizes)
        shape = ctypes.CFUNCTYPE(None, *[ctypes.c_int32] * len(NAMES), *[ctypes.c_int64] * words)
        self.call = shape(self.engine.get_function_address(entry))

    def launch(self, blocks, threads, words):
        self.device.system.pthread_barrier_init(self.barrier, None, threads)
        team = [
            threading.Thread(target=self.run, args=(thread, blocks, threads, words))
            for thread in range(threads)
        ]
        for each in team:
            each.start()
        for each in team:
            each.join()

    def run(self, thread, blocks, threads, words):
        for block in range(blocks):
            where = (thread, 0, 0, block, 0, 0, threads, 1, 1, blocks, 1, 1)
            self.call(*where, *words)
            self.device.system.pthread_barrier_wait(self.barrier)


def run(launches):
    for launch in launches:
        words = [*[argument.address for argument in launch.arguments], *launch.sizes]
        launch.kernel.launch(launch.blocks, launch.threads, words)
