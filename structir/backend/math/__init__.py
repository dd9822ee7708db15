"""Own float32 functions that LLVM turns into vector code; the tests state their error bounds."""
