// SPDX-License-Identifier: Apache-2.0
// A callable passed by reference: two words, no allocation, no template in the callee.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace hone {

template <class Signature>
class FunctionRef;

/// Refers to a callable that it does not own: the callable must outlive every call. Meant for
/// parameters, where the argument (a lambda written at the call, say) lives until the call returns.
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, A...>)
      FunctionRef(F&& f) {  // NOLINT: converting at the call is the point
    using Target = std::remove_reference_t<F>;
    if constexpr (std::is_function_v<Target>) {
      target_.function = reinterpret_cast<void (*)()>(&f);
      call_ = [](Stored s, A... args) -> R {
        return reinterpret_cast<Target*>(s.function)(std::forward<A>(args)...);
      };
    } else {
      target_.object = const_cast<void*>(static_cast<const void*>(std::addressof(f)));
      call_ = [](Stored s, A... args) -> R {
        return (*static_cast<Target*>(s.object))(std::forward<A>(args)...);
      };
    }
  }

  R operator()(A... args) const { return call_(target_, std::forward<A>(args)...); }

 private:
  union Stored {
    void* object;
    void (*function)();
  };
  Stored target_;
  R (*call_)(Stored, A...);
};

}  // namespace hone
