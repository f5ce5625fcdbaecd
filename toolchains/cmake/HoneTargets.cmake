# SPDX-License-Identifier: Apache-2.0
# How Hone's own targets are made: one object library per folder, all bundled into one static library.

find_package(Threads REQUIRED)

# Flags of Hone's own code; they never reach a user's targets.
function(hone_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Wno-missing-field-initializers
    # At -O3 GCC 12 warns of overlapping copies within std::string that cannot happen (GCC bug 105651), and of parts
    # of a moved std::map that nobody reads. Clang's analysis of uninitialised variables stays on.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    $<$<BOOL:${HONE_WERROR}>:-Werror>)
  # Hone's programs drop the functions they do not use. (The library's users decide for themselves.)
  target_link_options(${target} PRIVATE
    $<IF:$<PLATFORM_ID:Darwin>,-Wl$<COMMA>-dead_strip,-Wl$<COMMA>--gc-sections>)
  foreach(s IN LISTS HONE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${s} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${s})
    if(s STREQUAL "undefined")
      # With these GCC takes no address of a function for a constant, and tables of operators are constants. A null
      # pointer that is followed stops the program anyhow. What checks types at run time needs their information, which the
      # library does not have.
      target_compile_options(${target} PRIVATE -fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute,vptr)
    endif()
  endforeach()
endfunction()

# The library itself neither throws nor asks for run-time type information.
function(hone_library_options target)
  hone_compile_options(${target})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions> $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
    -ffunction-sections -fdata-sections
    # Nothing unwinds through the library; debuggers and profilers do, so only where size is wanted.
    $<$<CONFIG:MinSizeRel>:-fno-asynchronous-unwind-tables> $<$<CONFIG:MinSizeRel>:-fno-unwind-tables>)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/include> $<INSTALL_INTERFACE:include>)
endfunction()

# SIMD kernels exist once for each instruction set and are chosen at run time. FEW: those for what every processor has
# and for AVX2, a third of the code; processors with AVX-512 or SVE then do not use it in Hone's own kernels.
set(HONE_SIMD ALL CACHE STRING "Instruction sets of Hone's own SIMD kernels: ALL or FEW")
set_property(CACHE HONE_SIMD PROPERTY STRINGS ALL FEW)
function(hone_simd_targets target)
  if(HONE_SIMD STREQUAL "FEW")
    set(left_out HWY_SSSE3 HWY_SSE4 HWY_AVX3 HWY_AVX3_DL HWY_AVX3_ZEN4 HWY_AVX3_SPR HWY_SVE HWY_SVE2 HWY_SVE_256 HWY_SVE2_128)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND NOT APPLE)
      list(APPEND left_out HWY_NEON HWY_NEON_BF16)  # HWY_NEON_WITHOUT_AES stays
    endif()
    list(JOIN left_out "|" bits)
    target_compile_definitions(${target} PRIVATE "HWY_DISABLED_TARGETS=(${bits})")
  endif()
endfunction()

function(hone_add_object_folder target folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  if(sources)
    add_library(${target} OBJECT ${sources})
    hone_library_options(${target})
    set_property(GLOBAL APPEND PROPERTY HONE_OBJECT_TARGETS ${target})
  endif()
endfunction()

function(hone_add_core_folder folder)
  hone_add_object_folder(hone_${folder} core/${folder})
endfunction()
function(hone_add_backend name)
  hone_add_object_folder(hone_backend_${name} backends/${name})
endfunction()
function(hone_add_platform name)
  hone_add_object_folder(hone_platform_${name} platform/${name})
endfunction()

function(hone_add_library)
  get_property(targets GLOBAL PROPERTY HONE_OBJECT_TARGETS)
  set(objects "")
  foreach(t IN LISTS targets)
    list(APPEND objects $<TARGET_OBJECTS:${t}>)
  endforeach()
  add_library(hone STATIC ${objects})
  add_library(hone::hone ALIAS hone)
  hone_compile_options(hone)
  target_include_directories(hone PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/core/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(hone PUBLIC Threads::Threads)
  # The dependencies' headers stay private; their archives go to whoever links Hone from this build.
  # (Programs that use an installed Hone get them from hone-config.cmake.)
  get_property(used GLOBAL PROPERTY HONE_USED_DEPS)
  list(REMOVE_DUPLICATES used)
  foreach(name IN LISTS used)
    target_link_libraries(hone PRIVATE $<BUILD_INTERFACE:hone_dep_${name}_link>)
  endforeach()
endfunction()
