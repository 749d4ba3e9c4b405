# `cmake --build --preset release --target deb` makes Debian packages of Install.cmake's components in
# build/PRESET/packages. Each package is one component, and `cpack -D CPACK_COMPONENTS_ALL=roll` makes one alone.

set(package_files "${CMAKE_INSTALL_DATADIR}/doc")
set(scripts "${PROJECT_SOURCE_DIR}/packaging/debian")
set(ROLL_MAINTAINER "Roll maintainers <maintainers@localhost>" CACHE STRING "Maintainer that the packages name")

# What only a package installs: these files are not in `cmake --install` without a component.
string(TIMESTAMP package_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file("${scripts}/changelog.in" "${PROJECT_BINARY_DIR}/generated/changelog" @ONLY)
set(changelog "${PROJECT_BINARY_DIR}/generated/changelog")
execute_process(COMMAND gzip -9nf -k "${changelog}" COMMAND_ERROR_IS_FATAL ANY)
install(FILES packaging/rolld.yaml DESTINATION /etc/roll COMPONENT roll EXCLUDE_FROM_ALL)
install(FILES packaging/debian/lintian DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME roll COMPONENT roll
        EXCLUDE_FROM_ALL)
function(roll_package component name)
  install(FILES "${scripts}/copyright" "${changelog}.gz" DESTINATION ${package_files}/${name} COMPONENT ${component}
          EXCLUDE_FROM_ALL)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
endfunction()

# The scripts that complete commands are what the rollctl of this build prints.
if(TARGET rollctl)
  install(CODE "
    foreach(pair bash=bash-completion/completions/rollctl zsh=zsh/vendor-completions/_rollctl
                 fish=fish/vendor_completions.d/rollctl.fish)
      string(REPLACE \"=\" \";\" pair \${pair})
      list(GET pair 0 shell)
      list(GET pair 1 name)
      set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/\${name}\")
      get_filename_component(folder \"\${file}\" DIRECTORY)
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \"$<TARGET_FILE:rollctl>\" completion \${shell} OUTPUT_FILE \"\${file}\"
                      COMMAND_ERROR_IS_FATAL ANY)
    endforeach()" COMPONENT roll)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "${ROLL_MAINTAINER}")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${ROLL_LIBTORCH}/lib" "${ROLL_ARROW}")
# xz would need many minutes for LibTorch on one core. Tools that serve packages know gzip, but not all know zstd.
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/packaging/cmake/CompressManuals.cmake")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_COMPONENTS_ALL)
roll_package(roll roll)
set(CPACK_DEBIAN_ROLL_DESCRIPTION "coordinator, worker and client of a queue of training jobs
rolld keeps a durable queue of jobs, roll-worker runs the jobs of one machine,
and rollctl queues jobs and shows them. Also the dashboard, notifications and
the converter of checkpoints. roll-trainer has the program that trains.")
set(CPACK_DEBIAN_ROLL_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers")
set(CPACK_DEBIAN_ROLL_PACKAGE_SUGGESTS "roll-trainer (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_ROLL_PACKAGE_CONTROL_EXTRA "${scripts}/postinst" "${scripts}/prerm" "${scripts}/postrm"
                                            "${scripts}/conffiles")
if(TARGET roll-rank)
  roll_package(trainer roll-trainer)
  set(CPACK_DEBIAN_TRAINER_DESCRIPTION "trainer of Roll, with LibTorch for CPUs
roll-rank trains a language model as one process of a job. The package has the
libraries of LibTorch that roll-rank needs on a machine without GPUs.")
  set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "roll (= ${PROJECT_VERSION})")
  # libtorch_cpu.so needs them on every machine, and Debian has no package of them. Where CUDA is installed here,
  # `cmake --install` uses CUDA's, but the machine that installs the package may have none.
  # A LibTorch without CUDA needs neither.
  find_program(ROLL_LDCONFIG ldconfig PATHS /usr/sbin /sbin REQUIRED)
  execute_process(COMMAND "${ROLL_LDCONFIG}" -p OUTPUT_VARIABLE known)
  foreach(library libcudart.so.13 libcupti.so.13)
    if(NOT EXISTS "${PROJECT_SOURCE_DIR}/.deps/nvidia/cu13/lib/${library}"
       AND "${known}" MATCHES "${library} [^\n]*=> ([^\n]+)")
      file(REAL_PATH "${CMAKE_MATCH_1}" real)
      install(FILES "${real}" DESTINATION ${CMAKE_INSTALL_LIBDIR}/roll RENAME ${library} COMPONENT trainer
              EXCLUDE_FROM_ALL)
    endif()
  endforeach()
endif()
if(TARGET roll-parquet)
  roll_package(parquet roll-parquet)
  set(CPACK_DEBIAN_PARQUET_DESCRIPTION "reader of Parquet files for Roll
roll-parquet converts texts and conversations in Parquet files to lines of
JSON, with the libraries of Apache Arrow.")
  set(CPACK_DEBIAN_PARQUET_PACKAGE_DEPENDS "roll (= ${PROJECT_VERSION})")
endif()
include(CPack)

set(packaged)
foreach(program rolld roll-worker roll-convert rollctl roll-web roll-notify roll-rank roll-parquet)
  if(TARGET ${program})
    list(APPEND packaged ${program})
  endif()
endforeach()
add_custom_target(deb COMMAND "${CMAKE_CPACK_COMMAND}" WORKING_DIRECTORY "${PROJECT_BINARY_DIR}" DEPENDS ${packaged}
                  USES_TERMINAL VERBATIM)
