# Builds roll-rank-cuda, the trainer with LibTorch's CUDA libraries and NCCL. ROLL_CUDA is AUTO (built if
# nvcc, nccl.h and the wheel's libtorch_cuda are found), ON (fails if one is missing) or OFF.
# Building needs neither a GPU nor a driver.
set(ROLL_CUDA AUTO CACHE STRING "Build roll-rank-cuda: AUTO, ON or OFF")
if(ROLL_CUDA STREQUAL "OFF" OR NOT ROLL_TRAINER)
  set(roll_cuda OFF)
  return()
endif()

find_package(CUDAToolkit QUIET)
set(nvidia "${PROJECT_SOURCE_DIR}/.deps/nvidia")
find_path(ROLL_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} "${nvidia}/nccl/include")
find_library(ROLL_NCCL_LIBRARY NAMES nccl libnccl.so.2
             HINTS ${CUDAToolkit_LIBRARY_DIR} "${nvidia}/nccl/lib")
set(missing "")
if(NOT CUDAToolkit_FOUND)
  string(APPEND missing " the CUDA toolkit (nvcc)")
endif()
if(NOT ROLL_NCCL_INCLUDE OR NOT ROLL_NCCL_LIBRARY)
  string(APPEND missing " NCCL")
endif()
if(NOT EXISTS "${ROLL_LIBTORCH}/lib/libtorch_cuda.so")
  string(APPEND missing " libtorch_cuda.so in ${ROLL_LIBTORCH}")
endif()
if(missing)
  if(NOT ROLL_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "roll-rank-cuda needs what is not here:${missing}. Install it, or configure "
                        "with -DROLL_CUDA=OFF.")
  endif()
  message(STATUS "Without roll-rank-cuda:${missing} not found")
  set(roll_cuda OFF)
  return()
endif()

foreach(library c10_cuda torch_cuda)
  add_library(${library} SHARED IMPORTED)
  set_target_properties(${library} PROPERTIES IMPORTED_LOCATION "${ROLL_LIBTORCH}/lib/lib${library}.so")
endforeach()
# The linker must keep torch_cuda although nothing calls it by name: its kernels register when it is loaded.
add_library(roll_cuda_libraries INTERFACE)
target_include_directories(roll_cuda_libraries SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} "${ROLL_NCCL_INCLUDE}")
target_link_libraries(roll_cuda_libraries INTERFACE -Wl,--no-as-needed torch_cuda -Wl,--as-needed c10_cuda
                      CUDA::cudart "${ROLL_NCCL_LIBRARY}")
set(roll_cuda ON)
