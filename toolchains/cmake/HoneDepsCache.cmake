# SPDX-License-Identifier: Apache-2.0
# Where the dependencies that Hone builds itself are kept, and under which name.
#
#   <cache>/<name>-<version>-<machine>-<compiler>-<hash of the recipe>
#
# The recipe is toolchains/<name>/CMakeLists.txt without comments, and the pinned versions of what it
# builds from; change either and a new folder is made. Also a script, so that the shell scripts ask
# here instead of having a second opinion:
#   cmake -DNAME=xnnpack [-DCXX=compiler | -DTOOLCHAIN=file] -P HoneDepsCache.cmake

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.20)
endif()
set(HONE_TOOLCHAINS_DIR ${CMAKE_CURRENT_LIST_DIR}/..)

# HONE_DEPS_DIR (variable, then environment), else the user's cache folder.
function(hone_deps_dir out)
  if(HONE_DEPS_DIR)
    set(dir ${HONE_DEPS_DIR})
  elseif(DEFINED ENV{HONE_DEPS_DIR})
    set(dir $ENV{HONE_DEPS_DIR})
  elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(dir $ENV{XDG_CACHE_HOME}/hone)
  elseif(WIN32)
    set(dir $ENV{LOCALAPPDATA}/hone)
  else()
    set(dir $ENV{HOME}/.cache/hone)
  endif()
  file(TO_CMAKE_PATH "${dir}" dir)
  set(${out} ${dir} PARENT_SCOPE)
endfunction()

# "x86_64-linux-gnu-gcc12": what decides whether two object files fit together, and who made them.
function(hone_compiler_tag out_machine out_compiler cxx)
  execute_process(COMMAND ${cxx} -dumpmachine OUTPUT_VARIABLE machine OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET RESULT_VARIABLE failed)
  execute_process(COMMAND ${cxx} --version OUTPUT_VARIABLE banner ERROR_QUIET)
  execute_process(COMMAND ${cxx} -dumpversion OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET)
  if(failed)
    set(machine unknown)
  endif()
  string(REGEX REPLACE "-(pc|unknown)-" "-" machine "${machine}")
  string(REGEX MATCH "^[0-9]+" major "${version}")
  if(banner MATCHES "clang")
    set(compiler clang${major})
  else()
    set(compiler gcc${major})
  endif()
  set(${out_machine} ${machine} PARENT_SCOPE)
  set(${out_compiler} ${compiler} PARENT_SCOPE)
endfunction()

# The pinned Debian version of a source package, and what NAME's recipe is built from.
function(hone_pinned_version out name)
  file(STRINGS ${HONE_TOOLCHAINS_DIR}/debian/pins.txt line REGEX "^${name} ")
  string(REGEX REPLACE "^[^ ]+ +[^ ]+ +([^ ]+).*" "\\1" version "${line}")
  set(${out} ${version} PARENT_SCOPE)
endfunction()
function(hone_recipe_sources out name)
  if(name STREQUAL "xnnpack")
    set(${out} xnnpack cpuinfo fxdiv pthreadpool PARENT_SCOPE)
  else()
    set(${out} ${name} PARENT_SCOPE)
  endif()
endfunction()

# The folder name in two parts: what stands before the compiler, and the hash after it.
function(hone_deps_key out_stem out_hash name machine)
  set(recipe "")
  file(GLOB files ${HONE_TOOLCHAINS_DIR}/${name}/*)
  foreach(file IN LISTS files)
    file(STRINGS ${file} lines)
    list(FILTER lines EXCLUDE REGEX "^ *(#|//|$)")
    string(APPEND recipe "${lines}")
  endforeach()
  hone_recipe_sources(sources ${name})
  foreach(source IN LISTS sources)
    hone_pinned_version(version ${source})
    string(APPEND recipe "${source} ${version}\n")
  endforeach()
  string(SHA256 hash "${recipe}")
  string(SUBSTRING ${hash} 0 8 hash)
  hone_pinned_version(version ${name})
  string(REGEX REPLACE "^.*git|[+]ds|-[^-]*$" "" version "${version}")
  set(${out_stem} ${name}-${version}-${machine} PARENT_SCOPE)
  set(${out_hash} ${hash} PARENT_SCOPE)
endfunction()

# The cached build of NAME that fits CXX, or empty. GCC and Clang on one machine share the C++ library
# and the calling convention, so a build by the other one is as good.
function(hone_find_cached out name cxx)
  hone_deps_dir(dir)
  hone_compiler_tag(machine compiler ${cxx})
  hone_deps_key(stem hash ${name} ${machine})
  file(GLOB found LIST_DIRECTORIES true ${dir}/${stem}-*-${hash})
  if(EXISTS ${dir}/${stem}-${compiler}-${hash})
    set(found ${dir}/${stem}-${compiler}-${hash})
  elseif(found)
    list(POP_BACK found found)
  endif()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  if(TOOLCHAIN)
    include(${TOOLCHAIN})
    set(CXX ${CMAKE_CXX_COMPILER})
  endif()
  hone_deps_dir(dir)
  hone_compiler_tag(machine compiler ${CXX})
  hone_deps_key(stem hash ${NAME} ${machine})
  hone_recipe_sources(sources ${NAME})
  set(trees "")
  foreach(source IN LISTS sources)
    hone_pinned_version(version ${source})
    string(APPEND trees " ${source}-${version}")
  endforeach()
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo
    "folder='${dir}/${stem}-${compiler}-${hash}' trees='${trees}'")
endif()
