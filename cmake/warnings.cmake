# Warnings for the project's own code, and the floating-point rules on which bitwise equality rests.
add_library(hocket_warnings INTERFACE)
target_compile_options(hocket_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
  -ffp-contract=off                                   # a fused multiply-add is written std::fma, never inferred
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion -Wno-unused-command-line-argument>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-sign-conversion>)
