# SPDX-License-Identifier: Apache-2.0
# Where Hone's dependencies come from: one function for each, all with the same order.
#
#   1. a target that the surrounding project already defines;
#   2. the system (find_package or its equivalent), where its version will do;
#   3. the cache of static libraries that toolchains/debian/build-deps.sh fills;
#   4. with -DHONE_FETCH=ON, FetchContent, pinned by hash or commit.
#
# Configuring downloads nothing unless HONE_FETCH says so. Each function makes a target hone_dep::NAME
# or, for an optional dependency, tells what is lost and how to get it. hone_use(target NAME...) is how
# Hone's own targets take a dependency: it adds the headers and the definition HONE_HAVE_NAME=0|1.

include(${CMAKE_CURRENT_LIST_DIR}/HoneDepsCache.cmake)
include(FetchContent)
if(POLICY CMP0135)
  cmake_policy(SET CMP0135 NEW)  # unpacked files are as new as the unpacking
endif()

option(HONE_FETCH "Download pinned dependencies that are not found" OFF)
set(HONE_DEPS_DIR "" CACHE PATH "Cache of dependencies that Hone built (empty: hone/ in the user's cache folder)")
foreach(name IN ITEMS XNNPACK ONEDNN HIGHWAY ZLIB)
  set(HONE_${name} AUTO CACHE STRING "Use ${name}: AUTO (if found), ON (or fail), OFF")
  set_property(CACHE HONE_${name} PROPERTY STRINGS AUTO ON OFF)
endforeach()

# ---- what the functions below share

function(hone_dep_found name how)
  message(STATUS "Hone: ${name}: ${how}")
endfunction()

# A required dependency is missing.
function(hone_dep_missing name reason debian_package)
  message(FATAL_ERROR "Hone needs ${name} ${reason}. On Debian: apt-get install ${debian_package} "
    "(or run toolchains/debian/install-packages.sh, which installs everything). Elsewhere: install it, or "
    "configure with -DHONE_FETCH=ON to download a pinned copy.")
endfunction()

# An optional dependency is missing: an error if the user asked for it.
function(hone_dep_absent name option consequence remedy)
  if(${option} STREQUAL "ON")
    message(FATAL_ERROR "${option}=ON, but ${name} was not found. To get it: ${remedy}.")
  endif()
  message(STATUS "Hone: ${name}: not found; ${consequence}. To get it: ${remedy}.")
endfunction()

# Makes hone_dep::NAME, for compiling: headers, definitions, targets to USE. What programs that use
# Hone must LINK stands apart, since the archives of some dependencies call Hone in turn.
function(hone_dep name)
  cmake_parse_arguments(arg "" "" "INCLUDE;DEFINE;USE;LINK" ${ARGN})
  add_library(hone_dep_${name} INTERFACE)
  target_include_directories(hone_dep_${name} SYSTEM INTERFACE ${arg_INCLUDE})
  target_compile_definitions(hone_dep_${name} INTERFACE ${arg_DEFINE})
  target_link_libraries(hone_dep_${name} INTERFACE ${arg_USE})
  add_library(hone_dep::${name} ALIAS hone_dep_${name})
  add_library(hone_dep_${name}_link INTERFACE)
  target_link_libraries(hone_dep_${name}_link INTERFACE ${arg_USE} ${arg_LINK})
endfunction()

# hone_dep_archive(NAME FILE [LINK...]): a static library that must be linked into every program that
# uses Hone; it is installed with Hone (see HoneInstall.cmake).
function(hone_dep_archive name file)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  add_library(hone_archive_${name} STATIC IMPORTED GLOBAL)
  set_target_properties(hone_archive_${name} PROPERTIES
    IMPORTED_LOCATION ${file} INTERFACE_LINK_LIBRARIES "${arg_LINK}")
  set_property(GLOBAL APPEND PROPERTY HONE_ARCHIVES ${name})
  get_filename_component(folder ${file} DIRECTORY)
  file(GLOB licences ${folder}/../licenses/*)
  set_property(GLOBAL APPEND PROPERTY HONE_LICENCES ${licences})
endfunction()

# hone_fetch(NAME URL… URL_HASH… | GIT_REPOSITORY… GIT_TAG…): sources only; sets hone_fetch_NAME_SOURCE.
macro(hone_fetch name)
  FetchContent_Declare(hone_fetch_${name} SOURCE_SUBDIR no-cmake-here ${ARGN})
  FetchContent_MakeAvailable(hone_fetch_${name})
  set(hone_fetch_${name}_SOURCE ${hone_fetch_${name}_SOURCE_DIR})
  hone_dep_found(${name} "fetched ${hone_fetch_${name}_SOURCE}")
endmacro()

# The version that a header states: hone_version_in(out FILE PREFIX) reads PREFIX{MAJOR,MINOR,PATCH|REVISION}.
function(hone_version_in out file prefix)
  set(version "")
  foreach(part IN ITEMS MAJOR MINOR "(PATCH|REVISION)")
    file(STRINGS ${file} line REGEX "#define +${prefix}${part} ")
    string(REGEX REPLACE ".*[ (]([0-9]+).*" "\\1" number "${line}")
    list(APPEND version ${number})
  endforeach()
  list(JOIN version "." version)
  set(${out} ${version} PARENT_SCOPE)
endfunction()

# ---- tests and command line: headers only

# doctest: the test framework; one header that compiles fast and asks nothing of the library's flags.
function(hone_find_doctest)
  if(TARGET doctest::doctest)
    return()
  endif()
  find_path(HONE_DOCTEST_INCLUDE doctest/doctest.h)
  mark_as_advanced(HONE_DOCTEST_INCLUDE)
  if(HONE_DOCTEST_INCLUDE)
    set(include ${HONE_DOCTEST_INCLUDE})
    hone_dep_found(doctest "system ${include}")
  elseif(HONE_FETCH)
    hone_fetch(doctest URL https://github.com/doctest/doctest/archive/refs/tags/v2.4.9.tar.gz
      URL_HASH SHA256=19b2df757f2f3703a5e63cee553d85596875f06d91a3333acd80a969ef210856)
    set(include ${hone_fetch_doctest_SOURCE})
  else()
    hone_dep_missing(doctest "for its tests (or set HONE_BUILD_TESTS=OFF)" doctest-dev)
  endif()
  hone_dep(doctest INCLUDE ${include})
  add_library(doctest::doctest ALIAS hone_dep_doctest)
endfunction()

# CLI11: parses the command line of `hone`, with the help texts and suggestions that people expect.
function(hone_find_cli11)
  if(TARGET CLI11::CLI11)
    hone_dep(cli11 USE CLI11::CLI11)
    return()
  endif()
  find_path(HONE_CLI11_INCLUDE CLI/CLI.hpp)
  mark_as_advanced(HONE_CLI11_INCLUDE)
  if(HONE_CLI11_INCLUDE)
    set(include ${HONE_CLI11_INCLUDE})
    hone_dep_found(CLI11 "system ${include}")
  elseif(HONE_FETCH)
    hone_fetch(cli11 URL https://github.com/CLIUtils/CLI11/archive/v2.1.2.tar.gz
      URL_HASH SHA256=26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb)
    set(include ${hone_fetch_cli11_SOURCE}/include)
  else()
    hone_dep_missing(CLI11 "for its command line (or set HONE_BUILD_CLI=OFF)" libcli11-dev)
  endif()
  hone_dep(cli11 INCLUDE ${include})
endfunction()

# toml++: reads the training configuration of `hone train`.
function(hone_find_tomlplusplus)
  if(TARGET tomlplusplus::tomlplusplus)
    hone_dep(tomlplusplus USE tomlplusplus::tomlplusplus)
    return()
  endif()
  find_path(HONE_TOMLPLUSPLUS_INCLUDE toml++/toml.h)
  mark_as_advanced(HONE_TOMLPLUSPLUS_INCLUDE)
  if(HONE_TOMLPLUSPLUS_INCLUDE)
    set(include ${HONE_TOMLPLUSPLUS_INCLUDE})
    hone_dep_found(toml++ "system ${include}")
  elseif(HONE_FETCH)
    hone_fetch(tomlplusplus URL https://github.com/marzer/tomlplusplus/archive/refs/tags/v3.3.0.tar.gz
      URL_HASH SHA256=fc1a5eb410f3c67e90e5ad1264a1386d020067cfb01b633cc8c0441789aa6cf2)
    set(include ${hone_fetch_tomlplusplus_SOURCE}/include)
  else()
    hone_dep_missing(toml++ "for its command line (or set HONE_BUILD_CLI=OFF)" libtomlplusplus-dev)
  endif()
  hone_dep(tomlplusplus INCLUDE ${include} DEFINE TOML_HEADER_ONLY=1)
endfunction()

# ---- the library

# FlatBuffers: the .hone file is read in place, after a verifier has checked every offset. Headers at
# build time and its compiler; nothing is linked. The compiler and the headers must be of one version.
# The namespace is renamed, so that an app may use another version of FlatBuffers beside Hone's.
function(hone_find_flatbuffers)
  if(TARGET flatbuffers::flatc)
    get_target_property(include flatbuffers::flatbuffers INTERFACE_INCLUDE_DIRECTORIES)
    set(flatc flatbuffers::flatc)
    hone_dep_found(FlatBuffers "target flatbuffers::flatbuffers")
  else()
    find_path(HONE_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h)
    find_program(HONE_FLATC flatc)
    mark_as_advanced(HONE_FLATBUFFERS_INCLUDE HONE_FLATC)
    set(include ${HONE_FLATBUFFERS_INCLUDE})
    set(flatc ${HONE_FLATC})
    set(matching FALSE)
    if(include AND flatc)
      hone_version_in(version ${include}/flatbuffers/base.h FLATBUFFERS_VERSION_)
      execute_process(COMMAND ${flatc} --version OUTPUT_VARIABLE banner)
      if(banner MATCHES " ${version}")
        set(matching TRUE)
        hone_dep_found(FlatBuffers "system ${version} ${flatc}")
      else()
        message(STATUS "Hone: FlatBuffers: headers ${version} (${include}) and '${flatc}' differ in version")
      endif()
    endif()
    if(NOT matching AND HONE_FETCH)
      foreach(part IN ITEMS TESTS FLATLIB FLATHASH SHAREDLIB)
        set(FLATBUFFERS_BUILD_${part} OFF CACHE BOOL "" FORCE)
      endforeach()
      set(FLATBUFFERS_INSTALL OFF CACHE BOOL "" FORCE)
      hone_fetch(flatbuffers URL https://github.com/google/flatbuffers/archive/refs/tags/v23.5.26.zip
        URL_HASH SHA256=57bd580c0772fd1a726c34ab8bf05325293bc5f9c165060a898afa1feeeb95e1)
      add_subdirectory(${hone_fetch_flatbuffers_SOURCE} hone_flatbuffers EXCLUDE_FROM_ALL)
      set(include ${hone_fetch_flatbuffers_SOURCE}/include)
      set(flatc flatc)
    elseif(NOT matching)
      hone_dep_missing(FlatBuffers "for its file format" "flatbuffers-compiler libflatbuffers-dev")
    endif()
  endif()
  hone_dep(flatbuffers INCLUDE ${include} DEFINE flatbuffers=hone_flatbuffers)
  set_property(GLOBAL PROPERTY HONE_FLATC ${flatc})
endfunction()

# zlib: reads gzipped data sets (IDX) and compressed npz. Optional; plain files do without.
# The static library is preferred, so that Hone stays one file to link.
function(hone_find_zlib)
  if(HONE_ZLIB STREQUAL "OFF")
    return()
  elseif(TARGET ZLIB::ZLIB)
    hone_dep(zlib USE ZLIB::ZLIB)
    return()
  endif()
  find_path(HONE_ZLIB_INCLUDE zlib.h)
  find_library(HONE_ZLIB_ARCHIVE NAMES libz.a zlibstatic)
  mark_as_advanced(HONE_ZLIB_INCLUDE HONE_ZLIB_ARCHIVE)
  if(HONE_ZLIB_INCLUDE AND HONE_ZLIB_ARCHIVE)
    hone_dep_archive(zlib ${HONE_ZLIB_ARCHIVE})
    hone_dep(zlib INCLUDE ${HONE_ZLIB_INCLUDE} LINK hone_archive_zlib)
    hone_dep_found(zlib "system ${HONE_ZLIB_ARCHIVE}")
    return()
  endif()
  find_package(ZLIB QUIET)
  if(ZLIB_FOUND)
    hone_dep(zlib USE ZLIB::ZLIB)
    set_property(GLOBAL APPEND PROPERTY HONE_PACKAGES ZLIB)
    hone_dep_found(zlib "system ${ZLIB_LIBRARIES} (shared)")
  elseif(HONE_FETCH)
    hone_fetch(zlib URL https://github.com/madler/zlib/releases/download/v1.3.1/zlib-1.3.1.tar.gz
      URL_HASH SHA256=9a93b2b7dfdac77ceba5a558a580e74667dd6fede4585b91eefb60f03b72df23)
    set(SKIP_INSTALL_ALL ON)
    add_subdirectory(${hone_fetch_zlib_SOURCE} hone_zlib EXCLUDE_FROM_ALL)
    hone_dep_built(zlib zlibstatic)
    hone_dep(zlib INCLUDE ${hone_fetch_zlib_SOURCE} ${CMAKE_CURRENT_BINARY_DIR}/hone_zlib USE zlibstatic)
  else()
    hone_dep_absent(zlib HONE_ZLIB "gzipped data sets cannot be read" "apt-get install zlib1g-dev, or -DHONE_FETCH=ON")
  endif()
endfunction()

# A static library that this very build compiles: installed with Hone like an archive from the cache.
function(hone_dep_built name target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(hone_archive_${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY HONE_ARCHIVES ${name})
endfunction()

# Highway: one source for SIMD kernels on every processor, chosen at run time. Optional; the reference
# kernels do without. A static build from the cache, since Debian 12 has only a shared one.
function(hone_find_highway)
  if(HONE_HIGHWAY STREQUAL "OFF")
    return()
  elseif(TARGET hwy::hwy)
    hone_dep(highway USE hwy::hwy)
    hone_dep_found(Highway "target hwy::hwy")
    return()
  endif()
  hone_find_cached(folder highway ${CMAKE_CXX_COMPILER})
  if(folder)
    hone_dep_archive(highway ${folder}/lib/libhwy.a)
    hone_dep(highway INCLUDE ${folder}/include LINK hone_archive_highway DEFINE HWY_STATIC_DEFINE)
    hone_dep_found(Highway "cache ${folder}")
  elseif(HONE_FETCH)
    hone_fetch(highway URL https://github.com/google/highway/archive/refs/tags/1.2.0.tar.gz
      URL_HASH SHA256=7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343)
    set(HIGHWAY_SOURCE ${hone_fetch_highway_SOURCE} CACHE INTERNAL "")
    add_subdirectory(${HONE_TOOLCHAINS_DIR}/highway hone_highway EXCLUDE_FROM_ALL)
    hone_dep_built(highway hwy)
    hone_dep(highway USE hwy)
  else()
    hone_dep_absent(Highway HONE_HIGHWAY "SIMD kernels are left out"
      "toolchains/debian/build-deps.sh highway (30 s), or -DHONE_FETCH=ON")
  endif()
endfunction()

# XNNPACK: inference kernels on every processor, and training's matrix products where oneDNN is not.
# Optional; the reference kernels do without. Debian 12's package is of 2022 and will not do. An XNNPACK
# from elsewhere calls the real pthreadpool and so could not share Hone's threads; a surrounding project
# that has one offers it as a target hone_dep::xnnpack built by toolchains/xnnpack.
function(hone_find_xnnpack)
  if(HONE_XNNPACK STREQUAL "OFF" OR TARGET hone_dep::xnnpack)
    return()
  endif()
  hone_find_cached(folder xnnpack ${CMAKE_CXX_COMPILER})
  if(folder)
    # XNNPACK calls back into Hone for its threads, hence the circle.
    hone_dep_archive(cpuinfo ${folder}/lib/libcpuinfo.a LINK Threads::Threads)
    hone_dep_archive(xnnpack ${folder}/lib/libXNNPACK.a LINK hone_archive_cpuinfo hone m)
    hone_dep(xnnpack INCLUDE ${folder}/include LINK hone_archive_xnnpack)
    hone_dep_found(XNNPACK "cache ${folder}")
  elseif(HONE_FETCH)
    hone_fetch(xnnpack GIT_REPOSITORY https://github.com/google/XNNPACK.git
      GIT_TAG 4ea82e595b36106653175dcb04b2aa532660d0d8)
    hone_fetch(cpuinfo
      URL https://github.com/pytorch/cpuinfo/archive/dff2616ddd49122b63abcf44d2c097483b77f861.zip
      URL_HASH SHA256=a57f2b93704fe49ad37fa3ef5ce8208443d6b589b89653341332bcf51aa6dde3)
    hone_fetch(fxdiv
      URL https://github.com/Maratyszcza/FXdiv/archive/b408327ac2a15ec3e43352421954f5b1967701d1.zip
      URL_HASH SHA256=ab7dfb08829bee33dca38405d647868fb214ac685e379ec7ef2bebcd234cd44d)
    hone_fetch(pthreadpool
      URL https://github.com/Maratyszcza/pthreadpool/archive/4fe0e1e183925bf8cfa6aae24237e724a96479b8.zip
      URL_HASH SHA256=a4cf06de57bfdf8d7b537c61f1c3071bce74e57524fe053e0bbd2332feca7f95)
    foreach(name IN ITEMS xnnpack cpuinfo fxdiv pthreadpool)
      string(TOUPPER ${name} upper)
      set(${upper}_SOURCE ${hone_fetch_${name}_SOURCE} CACHE INTERNAL "")
    endforeach()
    add_subdirectory(${HONE_TOOLCHAINS_DIR}/xnnpack hone_xnnpack EXCLUDE_FROM_ALL)
    hone_dep_built(cpuinfo cpuinfo)
    hone_dep_built(xnnpack XNNPACK)
    hone_dep(xnnpack USE XNNPACK LINK hone)
  else()
    hone_dep_absent(XNNPACK HONE_XNNPACK "inference runs on Hone's own kernels"
      "toolchains/debian/build-deps.sh xnnpack (1 to 2 minutes), or -DHONE_FETCH=ON")
  endif()
endfunction()

# oneDNN: convolution and matrix products on x86-64, forward and backward, in f32 and bf16. Optional;
# other kernels do without, at several times the cost. Only version 3 with the THREADPOOL runtime will
# do: Hone hands in its own threads. (Debian 12 has version 2 with OpenMP.)
function(hone_find_onednn)
  if(HONE_ONEDNN STREQUAL "OFF")
    return()
  elseif(HONE_ONEDNN STREQUAL "AUTO" AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    message(STATUS "Hone: oneDNN: off by default on ${CMAKE_SYSTEM_PROCESSOR}")
    return()
  elseif(TARGET DNNL::dnnl)
    hone_dep(onednn USE DNNL::dnnl)
    hone_dep_found(oneDNN "target DNNL::dnnl")
    return()
  endif()
  find_package(dnnl 3 CONFIG QUIET)
  if(dnnl_FOUND AND DNNL_CPU_THREADING_RUNTIME STREQUAL "THREADPOOL")
    hone_dep(onednn USE DNNL::dnnl)
    set_property(GLOBAL APPEND PROPERTY HONE_PACKAGES dnnl)
    hone_dep_found(oneDNN "system ${dnnl_VERSION} ${dnnl_DIR}")
    return()
  endif()
  hone_find_cached(folder onednn ${CMAKE_CXX_COMPILER})
  if(folder)
    hone_dep_archive(onednn ${folder}/lib/libdnnl.a LINK Threads::Threads ${CMAKE_DL_LIBS})
    hone_dep(onednn INCLUDE ${folder}/include LINK hone_archive_onednn)
    hone_dep_found(oneDNN "cache ${folder}")
  elseif(HONE_FETCH)
    hone_fetch(onednn URL https://github.com/oneapi-src/oneDNN/archive/refs/tags/v3.7.2.tar.gz
      URL_HASH SHA256=21068e8cd2bf4077916bf31452eab5ac9998e620e1b22630a88f79c334857a5c)
    set(ONEDNN_SOURCE ${hone_fetch_onednn_SOURCE} CACHE INTERNAL "")
    add_subdirectory(${HONE_TOOLCHAINS_DIR}/onednn hone_onednn EXCLUDE_FROM_ALL)
    hone_dep_built(onednn dnnl)
    hone_dep(onednn USE dnnl)
  else()
    hone_dep_absent(oneDNN HONE_ONEDNN "convolution and matmul run on slower kernels"
      "toolchains/debian/build-deps.sh onednn (see toolchains/README.md for how long), or -DHONE_FETCH=ON")
  endif()
endfunction()

# ---- how Hone's targets take a dependency

# hone_use(TARGET NAME...): compile TARGET with these dependencies' headers and HONE_HAVE_NAME=0|1, and
# link them into everything that uses Hone. A TARGET that does not exist (an empty folder) is no error.
function(hone_use target)
  if(NOT TARGET ${target})
    return()
  endif()
  foreach(name IN LISTS ARGN)
    string(TOUPPER ${name} upper)
    if(TARGET hone_dep::${name})
      target_link_libraries(${target} PRIVATE hone_dep::${name})
      target_compile_definitions(${target} PRIVATE HONE_HAVE_${upper}=1)
      set_property(GLOBAL APPEND PROPERTY HONE_USED_DEPS ${name})
    else()
      target_compile_definitions(${target} PRIVATE HONE_HAVE_${upper}=0)
    endif()
  endforeach()
endfunction()

# hone_flatbuffers(TARGET SCHEMA...): generates SCHEMA_generated.h for TARGET, at build time. The object
# interface is there for tests, which take headers apart and put them together wrongly.
function(hone_flatbuffers target)
  if(NOT TARGET ${target})
    return()
  endif()
  get_property(flatc GLOBAL PROPERTY HONE_FLATC)
  set(folder ${PROJECT_BINARY_DIR}/schema)
  set(headers "")
  foreach(schema IN LISTS ARGN)
    get_filename_component(name ${schema} NAME_WE)
    set(header ${folder}/${name}_generated.h)
    add_custom_command(OUTPUT ${header}
      COMMAND ${flatc} --cpp --scoped-enums --gen-object-api --cpp-std c++17 -o ${folder} ${schema}
      DEPENDS ${schema} ${flatc} VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  target_sources(${target} PRIVATE ${headers})
  target_include_directories(${target} SYSTEM PRIVATE ${folder})
  hone_use(${target} flatbuffers)
endfunction()
