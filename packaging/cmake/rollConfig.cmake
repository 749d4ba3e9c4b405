# find_package(roll) finds the converter as a library; link roll::convert. All its dependencies are in Debian.
include(CMakeFindDependencyMacro)
foreach(package tl-expected nlohmann_json spdlog Threads yaml-cpp)
  find_dependency(${package})
endforeach()
include("${CMAKE_CURRENT_LIST_DIR}/rollTargets.cmake")
