// SPDX-License-Identifier: Apache-2.0
// The entry point of every test program: doctest's own, whose exit code tells ctest.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
