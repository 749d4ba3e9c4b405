# `cmake --install build/release --prefix DIR` installs programs, LibTorch's CPU libraries beside them, units,
# manual pages and examples. It also installs families and schemas for people and editors; the programs do
# not need these files, because they are compiled in. The components are the packages of Packages.cmake.

function(roll_install_programs component)
  foreach(program ${ARGN})
    if(TARGET ${program})
      install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
    endif()
  endforeach()
endfunction()
roll_install_programs(roll rolld roll-worker roll-convert rollctl roll-web roll-notify)
roll_install_programs(trainer roll-rank)
roll_install_programs(parquet roll-parquet)

if(TARGET roll-parquet)
  file(GLOB arrow_libraries "${ROLL_ARROW}/libarrow.so.*" "${ROLL_ARROW}/libparquet.so.*")
  install(FILES ${arrow_libraries} DESTINATION ${CMAKE_INSTALL_LIBDIR}/roll COMPONENT parquet)
endif()

if(TARGET roll-rank)
  # libtorch_cpu.so looks for other libraries beside itself. CUDA's two are here only if ldconfig knows none.
  file(GLOB cuda_libraries "${PROJECT_SOURCE_DIR}/.deps/nvidia/cu13/lib/libcudart.so.13"
                           "${PROJECT_SOURCE_DIR}/.deps/nvidia/cu13/lib/libcupti.so.13")
  install(FILES "${ROLL_LIBTORCH}/lib/libtorch_cpu.so" "${ROLL_LIBTORCH}/lib/libc10.so"
                "${ROLL_LIBTORCH}/lib/libgomp.so.1" ${cuda_libraries}
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/roll COMPONENT trainer)
endif()

# Installs the converter as a library: find_package(roll), then link roll::convert. Headers keep their paths
# ("worker/convert/convert.hpp") below include/roll. The component `library` has no programs and no LibTorch.
set(library_targets roll_flags roll_common roll_tensor roll_spec_schema roll_spec_job roll_spec_train roll_protocol roll_families roll_formats roll_layout
                    roll_checkpoint
                    roll_convert_checkpoint roll_convert_plan roll_convert_read roll_convert_write roll_convert_adapter
                    roll_convert)
foreach(target ${library_targets})
  string(REPLACE "roll_" "" export_name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${export_name})
endforeach()
list(REMOVE_ITEM library_targets roll_flags)
install(TARGETS roll_flags EXPORT roll COMPONENT library)
install(TARGETS ${library_targets} EXPORT roll COMPONENT library
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/roll COMPONENT library
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/roll COMPONENT library)
install(EXPORT roll NAMESPACE roll:: FILE rollTargets.cmake COMPONENT library
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/roll)
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rollConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES packaging/cmake/rollConfig.cmake "${PROJECT_BINARY_DIR}/rollConfigVersion.cmake" COMPONENT library
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/roll)

# LibTorch's CUDA libraries are not copied, because they take 2 GB with NVIDIA's. OPTIONAL, because
# packaging/demo configures with CUDA if nvcc is found, but builds only what a machine without GPUs needs.
if(TARGET roll-rank-cuda)
  install(TARGETS roll-rank-cuda RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
  install(CODE "if(NOT EXISTS \"$<TARGET_FILE:roll-rank-cuda>\")
    message(STATUS \"Left out, as it is not built: roll-rank-cuda (cmake --build --preset release)\")
  endif()")
  set_target_properties(roll-rank-cuda PROPERTIES INSTALL_RPATH "${ROLL_LIBTORCH}/lib")
endif()

set(data ${CMAKE_INSTALL_DATADIR}/roll)
install(DIRECTORY schemas/ DESTINATION ${data}/schemas COMPONENT roll FILES_MATCHING PATTERN "*.json")
install(FILES examples/kjv.yaml examples/pipeline.yaml DESTINATION ${data}/examples COMPONENT roll)
install(FILES systemd/rolld.service systemd/roll-worker.service systemd/roll-web.service
              systemd/roll-notify.service DESTINATION lib/systemd/system COMPONENT roll)
install(FILES systemd/user/rolld.service systemd/user/roll-worker.service DESTINATION lib/systemd/user
        COMPONENT roll)
install(FILES systemd/sysusers.conf DESTINATION lib/sysusers.d RENAME roll.conf COMPONENT roll)
install(FILES docs/man/rollctl.1 docs/man/roll-convert.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT roll)
install(FILES docs/man/roll-job.5 docs/man/rolld.yaml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT roll)
install(FILES docs/man/roll.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 COMPONENT roll)
install(FILES docs/man/rolld.8 docs/man/roll-worker.8 docs/man/roll-web.8 docs/man/roll-notify.8
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT roll)
