// SPDX-License-Identifier: Apache-2.0
// The only file that knows zlib.
#include "core/data/inflate.hpp"

#if HONE_HAVE_ZLIB

#include <zlib.h>

#include <algorithm>
#include <new>

namespace hone {

// zlib keeps a pointer to its z_stream, which therefore stays where it is.
struct Inflater::Stream {
  z_stream z{};
  std::span<const std::byte> rest;  // not given to zlib yet: its counts have 32 bits
  bool ended = false;
  ~Stream() { inflateEnd(&z); }

  // One call's worth: as much of `out` as one piece of input gives. Returns how many bytes were
  // written.
  Result<size_t> step(std::span<std::byte> out) {
    constexpr size_t kMost = size_t{1} << 30;
    if (z.avail_in == 0) {
      const size_t n = std::min(rest.size(), kMost);
      z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest.data()));
      z.avail_in = static_cast<uInt>(n);
      rest = rest.subspan(n);
    }
    const size_t room = std::min(out.size(), kMost);
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(room);
    const int code = ::inflate(&z, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) return out_of_memory("no memory to decompress");
    if (code == Z_BUF_ERROR) return invalid_model("the compressed data ends too soon");
    if (code == Z_STREAM_END)
      ended = true;
    else if (code != Z_OK)
      return invalid_model("the compressed data is damaged");
    return room - z.avail_out;
  }
};

bool can_inflate() { return true; }

Result<Inflater> Inflater::open(std::span<const std::byte> compressed, Form form) {
  std::unique_ptr<Stream> stream(new (std::nothrow) Stream);
  // Negative bits mean no frame, 16 and more a gzip frame.
  const int bits = form == Form::raw ? -MAX_WBITS : MAX_WBITS + 16;
  if (!stream || inflateInit2(&stream->z, bits) != Z_OK)
    return out_of_memory("no memory to decompress");
  stream->rest = compressed;
  return Inflater(std::move(stream));
}

Status Inflater::read(std::span<std::byte> out) {
  while (!out.empty()) {
    if (stream_->ended) return invalid_model("the compressed data ends too soon");
    HONE_ASSIGN(const size_t n, stream_->step(out));
    out = out.subspan(n);
  }
  return {};
}

Status Inflater::finish() {
  while (!stream_->ended) {
    std::byte extra;
    HONE_ASSIGN(const size_t n, stream_->step({&extra, 1}));
    if (n > 0) return invalid_model("the compressed data goes on after its end");
  }
  return {};
}

#else  // without zlib

namespace hone {

struct Inflater::Stream {};

bool can_inflate() { return false; }

Result<Inflater> Inflater::open(std::span<const std::byte>, Form) {
  return unsupported("it is compressed, and this Hone was built without zlib");
}

Status Inflater::read(std::span<std::byte>) { return internal("no zlib"); }
Status Inflater::finish() { return internal("no zlib"); }

#endif

Inflater::Inflater(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;
Inflater::~Inflater() = default;

}  // namespace hone
