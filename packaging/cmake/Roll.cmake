# The structure of the tree: each folder is a namespace, a static library and a row of the dependency table.

find_package(tl-expected REQUIRED)
find_package(Threads REQUIRED)

add_library(roll_flags INTERFACE)
target_include_directories(roll_flags INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                                                "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
target_compile_options(roll_flags INTERFACE
  "$<BUILD_INTERFACE:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-Wnon-virtual-dtor;-Woverloaded-virtual>")
# __FILE__ is a path from the root of the tree, so that objects do not depend on the folder of the clone: failed checks
# print the same text everywhere, and ccache serves other clones.
target_compile_options(roll_flags INTERFACE "$<BUILD_INTERFACE:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>")
# In a unity build (roll_unity), g++ treats an included source as a header and warns of local types in its classes.
target_compile_options(roll_flags INTERFACE "$<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>>")
target_compile_definitions(roll_flags INTERFACE "$<BUILD_INTERFACE:ROLL_VERSION=\"${PROJECT_VERSION}\">")
target_compile_features(roll_flags INTERFACE cxx_std_20)
if(ROLL_SANITIZE)
  target_compile_options(roll_flags INTERFACE -fsanitize=${ROLL_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(roll_flags INTERFACE -fsanitize=${ROLL_SANITIZE})
endif()

# The headers that nearly every file includes: precompiled once in roll_common and reused by every library. This
# only saves build time, because files include all that they use. Three checks ensure that: tests/tidy checks
# standard headers by name, a header's .cpp includes it first, and the target lone_headers compiles each header that
# has no .cpp.
set(roll_pch <algorithm> <chrono> <filesystem> <functional> <map> <optional> <set> <string> <variant> <vector>
             <tl/expected.hpp> <nlohmann/json.hpp> <fmt/format.h>)
# The same for the rooms of worker/train and their tests.
set(roll_trainer_pch <algorithm> <functional> <map> <string> <vector> <nlohmann/json.hpp> <ATen/ATen.h>
                     <ATen/Parallel.h>)

# Joins the sources of a target in units of up to 16 files, which halves the time of a full build. Files of one target
# therefore share the names of their anonymous namespaces. ROLL_UNITY=OFF compiles each file alone, so that a changed
# file is compiled again faster.
function(roll_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ROLL_UNITY} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# Folders whose speed users feel have -O2. The others, and the main files, have -O1, which takes a quarter less time.
# Their precompiled header is another one, because g++ 12 fails if -O2 meets a header of -O1.
set(roll_fast common daemon/core daemon/dispatch daemon/engine daemon/gateway daemon/ledger daemon/query daemon/secrets
              daemon/server worker/chat worker/checkpoint worker/convert worker/formats worker/layout worker/plan
              worker/tokenizer worker/train)

# Sets `name` to the target whose precompiled header the library or program `target` of the current folder reuses.
function(roll_optimize target name)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  get_target_property(type ${target} TYPE)
  set(${name} roll_common PARENT_SCOPE)
  foreach(fast ${roll_fast})
    if("${folder}/" MATCHES "^${fast}/" AND NOT type STREQUAL "EXECUTABLE")
      return()
    endif()
  endforeach()
  set(${name} roll_slow_pch PARENT_SCOPE)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-O1>")
endfunction()

# roll_library(NAME [DEPS ...] [LINK ...]): makes the static library roll_NAME of every .cpp beside the
# CMakeLists.txt except main.cpp. DEPS are the only folders that it may include from (tests/tidy checks that).
# LINK are libraries of third parties.
# OWN_PCH: the trainer's precompiled header, because LibTorch's fmt differs from Roll's.
# FOLDERS: folders below this one whose files belong to the same library.
function(roll_library name)
  cmake_parse_arguments(arg "OWN_PCH" "" "DEPS;LINK;FOLDERS" ${ARGN})
  set(patterns "${CMAKE_CURRENT_SOURCE_DIR}/*")
  foreach(folder ${arg_FOLDERS})
    list(APPEND patterns "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*")
  endforeach()
  list(TRANSFORM patterns APPEND ".cpp" OUTPUT_VARIABLE source_patterns)
  list(TRANSFORM patterns APPEND ".hpp" OUTPUT_VARIABLE header_patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${source_patterns})
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  file(GLOB headers CONFIGURE_DEPENDS ${header_patterns})
  add_library(roll_${name} STATIC ${sources})
  target_sources(roll_${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${headers})
  set_target_properties(roll_${name} PROPERTIES LINKER_LANGUAGE CXX)
  roll_unity(roll_${name})
  list(TRANSFORM arg_DEPS PREPEND roll_)
  target_link_libraries(roll_${name} PUBLIC roll_flags ${arg_DEPS} ${arg_LINK})
  if(name STREQUAL "common")
    target_precompile_headers(roll_common PRIVATE ${roll_pch})
    file(WRITE "${PROJECT_BINARY_DIR}/generated/slow_pch.cpp" "")
    add_library(roll_slow_pch STATIC "${PROJECT_BINARY_DIR}/generated/slow_pch.cpp")
    target_link_libraries(roll_slow_pch PRIVATE roll_common)
    target_compile_options(roll_slow_pch PRIVATE "$<$<CONFIG:Release>:-O1>")
    target_precompile_headers(roll_slow_pch PRIVATE ${roll_pch})
  elseif(NOT arg_OWN_PCH)
    roll_optimize(roll_${name} pch_owner)
    target_precompile_headers(roll_${name} REUSE_FROM ${pch_owner})
  endif()
  set(pch_owner roll_common)
  if(arg_OWN_PCH)
    set(pch_owner roll_train_process)
  endif()
  roll_lone_headers(${name} ${pch_owner} "${headers}")
endfunction()

# Makes lone_headers compile each of the headers that has no .cpp, as a unit of its own.
add_custom_target(lone_headers)
function(roll_lone_headers name pch_owner headers)
  set(units)
  foreach(header ${headers})
    string(REGEX REPLACE "hpp$" "cpp" source "${header}")
    if(NOT EXISTS "${source}")
      file(RELATIVE_PATH path "${PROJECT_SOURCE_DIR}" "${header}")
      set(unit "${PROJECT_BINARY_DIR}/generated/headers/${path}.cpp")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"${path}\"\n")
      list(APPEND units "${unit}")
    endif()
  endforeach()
  if(units)
    add_library(roll_${name}_headers OBJECT EXCLUDE_FROM_ALL ${units})
    target_link_libraries(roll_${name}_headers PRIVATE roll_${name})
    set_target_properties(roll_${name}_headers PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM ${pch_owner})
    add_dependencies(lone_headers roll_${name}_headers)
  endif()
endfunction()

# roll_program(NAME DEPS ...): makes a program of the main.cpp beside the CMakeLists.txt and the libraries DEPS.
# OWN_PCH: as in roll_library.
function(roll_program name)
  cmake_parse_arguments(arg "OWN_PCH" "" "DEPS;LINK" ${ARGN})
  add_executable(${name} main.cpp)
  list(TRANSFORM arg_DEPS PREPEND roll_)
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ${arg_LINK})
  if(arg_OWN_PCH)
    target_precompile_headers(${name} REUSE_FROM roll_train_process)
  else()
    roll_optimize(${name} pch_owner)
    target_precompile_headers(${name} REUSE_FROM ${pch_owner})
  endif()
endfunction()

# Tests are compiled with -Og, which takes a third less time than -O2. What they test has -O2.
function(roll_test_options target)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:-Og>")
endfunction()

# The precompiled headers of tests: one for all, one for those that link LibTorch.
function(roll_test_pch)
  find_package(GTest REQUIRED)
  file(WRITE "${PROJECT_BINARY_DIR}/generated/test_pch.cpp" "")
  add_library(roll_test_pch STATIC "${PROJECT_BINARY_DIR}/generated/test_pch.cpp")
  target_link_libraries(roll_test_pch PUBLIC roll_flags roll_common GTest::gtest)
  roll_test_options(roll_test_pch)
  target_precompile_headers(roll_test_pch PRIVATE ${roll_pch} <gtest/gtest.h>)
  if(TARGET roll_train_process)
    add_library(roll_trainer_test_pch STATIC "${PROJECT_BINARY_DIR}/generated/test_pch.cpp")
    target_link_libraries(roll_trainer_test_pch PUBLIC roll_train_process GTest::gtest)
    roll_test_options(roll_trainer_test_pch)
    target_precompile_headers(roll_trainer_test_pch PRIVATE ${roll_trainer_pch} <gtest/gtest.h>)
  endif()
endfunction()

# Makes a GoogleTest program of SOURCES.
function(roll_test_program target)
  cmake_parse_arguments(arg "OWN_PCH" "" "DEPS;LINK;SOURCES" ${ARGN})
  add_executable(${target} ${arg_SOURCES})
  roll_unity(${target})
  roll_test_options(${target})
  list(TRANSFORM arg_DEPS PREPEND roll_)
  target_link_libraries(${target} PRIVATE ${arg_DEPS} ${arg_LINK} roll_test_main)
  if(arg_OWN_PCH)
    target_precompile_headers(${target} REUSE_FROM roll_trainer_test_pch)
  else()
    target_precompile_headers(${target} REUSE_FROM roll_test_pch)
  endif()
endfunction()

# roll_test(NAME LABEL label DEPS ... [SOURCES ...]): makes one test and its program NAME_test of NAME_test.cpp or
# SOURCES, which must be behind DEPS, LINK and OWN_PCH.
function(roll_test name)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "SOURCES" ${ARGN})
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${name}_test.cpp)
  endif()
  roll_test_program(${name}_test SOURCES ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
  add_test(NAME ${name} COMMAND ${name}_test)
  roll_test_properties(${name} "${arg_LABEL}" "${arg_TIMEOUT}")
endfunction()

# roll_tests(NAME LABEL label DEPS ... TESTS test ... [SOURCES ...]): makes a test of each test_test.cpp, and one
# program NAME_tests of these files and SOURCES. A test program takes seconds to compile before its first line, so a
# folder has one program where it can.
function(roll_tests name)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "TESTS;SOURCES" ${ARGN})
  list(TRANSFORM arg_TESTS APPEND "_test.cpp" OUTPUT_VARIABLE files)
  roll_test_program(${name}_tests SOURCES ${files} ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
  foreach(test ${arg_TESTS})
    add_test(NAME ${test} COMMAND ${name}_tests ${test})
    roll_test_properties(${test} "${arg_LABEL}" "${arg_TIMEOUT}")
  endforeach()
endfunction()

function(roll_test_properties test label timeout)
  set_tests_properties(${test} PROPERTIES LABELS "${label}")
  if(timeout)
    set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout})
  endif()
endfunction()
