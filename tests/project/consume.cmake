# SPDX-License-Identifier: Apache-2.0
# Builds and runs tests/consume against this build's installation and against its sources.
#   cmake -DBUILD=… -DSOURCE=… -DWORK=… -DGENERATOR=… -DCC=… -DCXX=… -DLAUNCHER=… -P consume.cmake
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(code)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${out}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
# An installation is moved about: it must not know where it was made.
file(RENAME ${WORK}/prefix ${WORK}/moved)

foreach(from IN ITEMS package source)
  step(${CMAKE_COMMAND} -S ${SOURCE}/tests/consume -B ${WORK}/${from} -G ${GENERATOR}
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
    -DHONE_FROM=${from} -DHONE_SOURCE=${SOURCE} -DCMAKE_PREFIX_PATH=${WORK}/moved)
  step(${CMAKE_COMMAND} --build ${WORK}/${from} --target consumer)
  step(${WORK}/${from}/consumer)
  message(STATUS "consumed from ${from}")
endforeach()

file(GLOB_RECURSE texts ${WORK}/moved/*.cmake ${WORK}/moved/*.pc)
foreach(text IN LISTS texts)
  file(READ ${text} content)
  if(content MATCHES "${BUILD}|${SOURCE}/")
    message(FATAL_ERROR "${text} names the folder it was built in")
  endif()
endforeach()
