# LibTorch is the wheel from PyPI, unpacked by packaging/setup. The wheel's own CMake package asks for a
# GPU at configure time, so the imported target is written by hand. It links torch_cpu and c10
# alone, because the programs must run on machines without CUDA.
if(NOT EXISTS "${ROLL_LIBTORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch is not in ${ROLL_LIBTORCH}. Run packaging/setup, or configure with "
                      "-DROLL_LIBTORCH=DIR (the wheel's torch folder), or with -DROLL_TRAINER=OFF.")
endif()
foreach(library c10 torch_cpu)
  add_library(${library} SHARED IMPORTED)
  set_target_properties(${library} PROPERTIES IMPORTED_LOCATION "${ROLL_LIBTORCH}/lib/lib${library}.so")
endforeach()
target_include_directories(torch_cpu SYSTEM INTERFACE "${ROLL_LIBTORCH}/include"
                           "${ROLL_LIBTORCH}/include/torch/csrc/api/include")
target_link_libraries(torch_cpu INTERFACE c10)
# at::parallel_for is compiled from a header; without this flag it silently runs on one thread. The OpenMP
# runtime is the wheel's own, so that Roll's loops and LibTorch's share one set of threads.
target_compile_options(torch_cpu INTERFACE -fopenmp)
target_link_libraries(torch_cpu INTERFACE "${ROLL_LIBTORCH}/lib/libgomp.so.1")
# norelro: the linker would begin the read-only-after-relocation segment at LibTorch's one-byte thread-local, a
# few bytes before the loaded data. If a page ends between them, which depends on the length of a path, a program
# cannot start ("cannot apply additional memory protection").
target_link_options(torch_cpu INTERFACE -Wl,--allow-shlib-undefined -Wl,-z,norelro)
target_compile_definitions(torch_cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
