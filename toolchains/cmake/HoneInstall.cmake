# SPDX-License-Identifier: Apache-2.0
# Installs Hone so that find_package(hone) gives the target hone::hone, and pkg-config the package hone.
#
#   include/hone/          public headers
#   lib/libhone.a          Hone
#   lib/hone/*.a           the static libraries it is linked with
#   lib/cmake/hone/        hone-config.cmake and its version file
#   lib/pkgconfig/hone.pc
#   share/doc/hone/        licences of what is inside

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

option(HONE_INSTALL "Install Hone with the surrounding project" ${PROJECT_IS_TOP_LEVEL})

function(hone_install)
  if(NOT HONE_INSTALL)
    return()
  endif()
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hone)
  set(archive_dir ${CMAKE_INSTALL_LIBDIR}/hone)

  install(TARGETS hone EXPORT hone-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/core/include/hone DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT hone-targets NAMESPACE hone:: DESTINATION ${package_dir})

  get_property(archives GLOBAL PROPERTY HONE_ARCHIVES)
  get_property(HONE_PACKAGES GLOBAL PROPERTY HONE_PACKAGES)
  set(HONE_ARCHIVE_NAMES "")
  set(HONE_ARCHIVE_FLAGS "")
  foreach(name IN LISTS archives)
    # Renamed, so that -lz or -ldnnl of the system and ours cannot be mistaken for each other.
    install(FILES $<TARGET_FILE:hone_archive_${name}> DESTINATION ${archive_dir} RENAME libhone-${name}.a)
    list(APPEND HONE_ARCHIVE_NAMES ${name})
    string(APPEND HONE_ARCHIVE_FLAGS " -lhone-${name}")
  endforeach()
  get_property(licences GLOBAL PROPERTY HONE_LICENCES)
  install(FILES ${licences} DESTINATION ${CMAKE_INSTALL_DOCDIR})

  set(generated ${PROJECT_BINARY_DIR}/package)
  set(HONE_ARCHIVE_DIR ${archive_dir})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/toolchains/cmake/hone-config.cmake.in
    ${generated}/hone-config.cmake INSTALL_DESTINATION ${package_dir} PATH_VARS HONE_ARCHIVE_DIR)
  write_basic_package_version_file(${generated}/hone-config-version.cmake COMPATIBILITY SameMinorVersion)
  configure_file(${PROJECT_SOURCE_DIR}/toolchains/cmake/hone.pc.in ${generated}/hone.pc @ONLY)
  install(FILES ${generated}/hone-config.cmake ${generated}/hone-config-version.cmake
          DESTINATION ${package_dir})
  install(FILES ${generated}/hone.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
