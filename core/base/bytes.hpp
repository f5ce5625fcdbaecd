// SPDX-License-Identifier: Apache-2.0
// Little-endian integers in byte buffers, at any alignment, on any host.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hone {

/// Reverses the bytes of an integer.
template <class T>
constexpr T byteswap(T v) {
  static_assert(std::is_unsigned_v<T>);
  T out = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    out = static_cast<T>(out | ((v >> (8 * i)) & 0xffu) << (8 * (sizeof(T) - 1 - i)));
  return out;
}

/// The little-endian integer at `p`, which need not be aligned.
template <class T>
T load_le(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  if constexpr (std::endian::native == std::endian::big) v = byteswap(v);
  return v;
}

/// The big-endian integer at `p`, which need not be aligned.
template <class T>
T load_be(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  if constexpr (std::endian::native == std::endian::little) v = byteswap(v);
  return v;
}

template <class T>
void store_le(void* p, T v) {
  if constexpr (std::endian::native == std::endian::big) v = byteswap(v);
  std::memcpy(p, &v, sizeof v);
}

template <class T>
void store_be(void* p, T v) {
  if constexpr (std::endian::native == std::endian::little) v = byteswap(v);
  std::memcpy(p, &v, sizeof v);
}

}  // namespace hone
