"""Float32 math functions that LLVM vectorizes; the tests state their error bounds."""
