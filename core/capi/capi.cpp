// SPDX-License-Identifier: Apache-2.0
// The C interface over the C++ one.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "hone/checkpoint.hpp"
#include "hone/hone.h"
#include "hone/loss_text.hpp"
#include "hone/onnx.hpp"
#include "hone/trainer.hpp"

struct hone_model {
  hone::Model model;
};
struct hone_session {
  hone::Session session;
};
struct hone_result {
  std::vector<std::string> names;
  std::vector<hone::TensorData> tensors;
};
struct hone_trainer {
  hone::Trainer trainer;
  std::string base_hash;
};

namespace {

using hone::Result;
using hone::Status;

hone_code report(const Status& s, hone_error* error) {
  if (error && error->struct_size >= sizeof(hone_error)) {
    const size_t n = std::min(s.message().size(), sizeof(error->message) - 1);
    std::memcpy(error->message, s.message().data(), n);
    error->message[n] = 0;
  }
  return static_cast<hone_code>(s.code());
}

// Runs `f`, which returns a Status, when no pointer is null.
template <class F>
hone_code guarded(hone_error* error, std::initializer_list<const void*> pointers, F f) {
  for (const void* p : pointers)
    if (!p) return report(hone::invalid("a pointer that must be given is null"), error);
  return report(f(), error);
}

template <class T, class... A>
Status make(T** out, A&&... args) {
  *out = new (std::nothrow) T{std::forward<A>(args)...};
  return *out ? Status() : hone::out_of_memory("no memory for an object");
}

Result<std::vector<hone::NamedTensor>> tensors_of(const hone_tensor* tensors, size_t count) {
  std::vector<hone::NamedTensor> out;
  for (size_t i = 0; i < count; ++i) {
    const hone_tensor& t = tensors[i];
    if (t.struct_size < sizeof(hone_tensor))
      return hone::invalid("tensor {}: struct_size is {}, expected {}", i, t.struct_size,
                           sizeof(hone_tensor));
    if (!t.name || !t.data) return hone::invalid("tensor {} has no name or no data", i);
    if (!hone::is_valid_dtype(static_cast<int>(t.dtype)))
      return hone::invalid("tensor '{}': dtype {} does not exist", t.name,
                           static_cast<int>(t.dtype));
    if (t.rank < 0 || t.rank > HONE_MAX_RANK)
      return hone::invalid("tensor '{}': its rank is {}, expected 0 to {}", t.name, t.rank,
                           HONE_MAX_RANK);
    const hone::TensorType type{
        static_cast<hone::DType>(t.dtype),
        hone::Shape(std::span<const int64_t>(t.dims, static_cast<size_t>(t.rank)))};
    const auto bytes = hone::checked_bytes(type.shape, type.dtype);
    if (!bytes.ok()) return bytes.status().with_context(t.name);
    if (static_cast<size_t>(*bytes) != t.bytes)
      return hone::invalid("tensor '{}' of {} needs {} bytes, {} are given", t.name, type, *bytes,
                           t.bytes);
    out.push_back({t.name, hone::TensorData::borrow(type, t.data, nullptr)});
  }
  return out;
}

Result<hone::TrainerOptions> options_of(const hone_trainer_options& o) {
  // Callers that were compiled before the last field came do not have it.
  if (o.struct_size < offsetof(hone_trainer_options, memory_limit))
    return hone::invalid("trainer options: struct_size is {}, expected {}", o.struct_size,
                         sizeof(hone_trainer_options));
  if (!o.loss) return hone::invalid("trainer options: a loss is needed");
  if (o.optimizer < HONE_SGD || o.optimizer > HONE_ADAMW)
    return hone::invalid("trainer options: optimizer {} does not exist",
                         static_cast<int>(o.optimizer));
  hone::TrainerOptions out;
  HONE_ASSIGN(out.loss, hone::parse_loss(o.loss));
  out.optimizer.kind = static_cast<hone::OptimizerKind>(o.optimizer);
  out.optimizer.lr = o.lr;
  out.optimizer.momentum = o.momentum;
  out.optimizer.weight_decay = o.weight_decay;
  out.clip_norm = o.clip_norm;
  if (o.trainable) out.trainable = o.trainable;
  out.seed = o.seed;
  out.session.threads = std::max<int32_t>(1, o.threads);
  // Fields that came later are there when the caller's struct has room for them.
  if (o.struct_size >= offsetof(hone_trainer_options, spill_folder))
    out.session.memory_limit = o.memory_limit;
  if (o.struct_size >= offsetof(hone_trainer_options, max_dims) && o.spill_folder)
    out.spill_folder = o.spill_folder;
  if (o.struct_size >= offsetof(hone_trainer_options, deterministic) && o.max_dims) {
    HONE_ASSIGN(out.session.max_dims, hone::parse_dim_limits(o.max_dims));
  }
  out.session.deterministic = o.struct_size >= sizeof(hone_trainer_options) && o.deterministic != 0;
  return out;
}

}  // namespace

const char* hone_version(void) { return HONE_VERSION; }

hone_code hone_model_open(const char* path, hone_model** model, hone_error* error) {
  return guarded(error, {path, model}, [&]() -> Status {
    HONE_ASSIGN(hone::Model m, hone::open_model(path));
    return make(model, std::move(m));
  });
}

hone_code hone_model_save(const hone_model* model, const char* path, hone_error* error) {
  return guarded(error, {model, path}, [&] { return hone::save_model(model->model, path); });
}

hone_code hone_model_export_onnx(const hone_model* model, const char* path, hone_error* error) {
  return guarded(error, {model, path}, [&] { return hone::export_onnx(model->model, path); });
}

size_t hone_model_input_count(const hone_model* model) {
  return model ? model->model.graph.inputs.size() : 0;
}

size_t hone_model_output_count(const hone_model* model) {
  return model ? model->model.graph.outputs.size() : 0;
}

const char* hone_model_input_name(const hone_model* model, size_t index) {
  if (index >= hone_model_input_count(model)) return nullptr;
  const hone::Graph& g = model->model.graph;
  return g.value(g.inputs[index]).name.c_str();
}

const char* hone_model_output_name(const hone_model* model, size_t index) {
  if (index >= hone_model_output_count(model)) return nullptr;
  return model->model.graph.outputs[index].name.c_str();
}

void hone_model_free(hone_model* model) { delete model; }

hone_code hone_session_create(const hone_model* model, const hone_session_options* options,
                              hone_session** session, hone_error* error) {
  return guarded(error, {model, session}, [&]() -> Status {
    hone::SessionOptions o;
    if (options && options->struct_size >= offsetof(hone_session_options, memory_limit) &&
        options->threads > 0)
      o.threads = options->threads;
    if (options && options->struct_size >= offsetof(hone_session_options, max_dims))
      o.memory_limit = options->memory_limit;
    if (options && options->struct_size >= offsetof(hone_session_options, deterministic) &&
        options->max_dims) {
      HONE_ASSIGN(o.max_dims, hone::parse_dim_limits(options->max_dims));
    }
    o.deterministic = options && options->struct_size >= sizeof(hone_session_options) &&
                      options->deterministic != 0;
    HONE_ASSIGN(hone::Session s, hone::Session::create(model->model, o));
    return make(session, std::move(s));
  });
}

hone_code hone_session_run(hone_session* session, const hone_tensor* inputs, size_t count,
                           hone_result** result, hone_error* error) {
  return guarded(
      error, {session, result, count ? static_cast<const void*>(inputs) : result}, [&]() -> Status {
        HONE_ASSIGN(const std::vector<hone::NamedTensor> named, tensors_of(inputs, count));
        HONE_ASSIGN(std::vector<hone::TensorData> outputs, session->session.run(named));
        std::vector<std::string> names;
        for (const hone::GraphOutput& o : session->session.model().graph.outputs)
          names.push_back(o.name);
        return make(result, std::move(names), std::move(outputs));
      });
}

void hone_session_free(hone_session* session) { delete session; }

size_t hone_result_count(const hone_result* result) { return result ? result->tensors.size() : 0; }

hone_code hone_result_get(const hone_result* result, size_t index, hone_tensor* tensor,
                          hone_error* error) {
  return guarded(error, {result, tensor}, [&]() -> Status {
    if (tensor->struct_size < sizeof(hone_tensor))
      return hone::invalid("struct_size is {}, expected {}", tensor->struct_size,
                           sizeof(hone_tensor));
    if (index >= result->tensors.size())
      return hone::invalid("there is no output {}: the result has {}", index,
                           result->tensors.size());
    const hone::TensorData& t = result->tensors[index];
    tensor->name = result->names[index].c_str();
    tensor->dtype = static_cast<hone_dtype>(t.dtype());
    tensor->rank = t.shape().rank();
    for (int i = 0; i < HONE_MAX_RANK; ++i)
      tensor->dims[i] = i < t.shape().rank() ? t.shape()[i] : 0;
    tensor->data = t.data();
    tensor->bytes = static_cast<size_t>(t.bytes());
    return {};
  });
}

void hone_result_free(hone_result* result) { delete result; }

hone_code hone_trainer_create(const hone_model* model, const hone_trainer_options* options,
                              hone_trainer** trainer, hone_error* error) {
  return guarded(error, {model, options, trainer}, [&]() -> Status {
    HONE_ASSIGN(hone::TrainerOptions o, options_of(*options));
    HONE_ASSIGN(hone::Trainer t, hone::Trainer::create(model->model, std::move(o)));
    return make(trainer, std::move(t), hone::content_hash(model->model));
  });
}

hone_code hone_trainer_step(hone_trainer* trainer, const hone_tensor* batch, size_t count,
                            double* loss, hone_error* error) {
  return guarded(error, {trainer, batch}, [&]() -> Status {
    HONE_ASSIGN(const std::vector<hone::NamedTensor> named, tensors_of(batch, count));
    HONE_ASSIGN(const hone::StepResult r, trainer->trainer.step(named));
    if (loss) *loss = r.loss;
    return {};
  });
}

hone_code hone_trainer_peak_bytes(hone_trainer* trainer, const hone_tensor* batch, size_t count,
                                  int64_t* bytes, hone_error* error) {
  return guarded(error, {trainer, batch, bytes}, [&]() -> Status {
    HONE_ASSIGN(const std::vector<hone::NamedTensor> named, tensors_of(batch, count));
    HONE_ASSIGN(const hone::PlanInfo plan, trainer->trainer.plan(named));
    *bytes = plan.peak_bytes;
    return {};
  });
}

hone_code hone_trainer_set_memory_limit(hone_trainer* trainer, int64_t bytes, hone_error* error) {
  return guarded(error, {trainer},
                 [&]() -> Status { return trainer->trainer.set_memory_limit(bytes); });
}

hone_code hone_trainer_evaluate(hone_trainer* trainer, const hone_tensor* batch, size_t count,
                                double* loss, hone_error* error) {
  return guarded(error, {trainer, batch, loss}, [&]() -> Status {
    HONE_ASSIGN(const std::vector<hone::NamedTensor> named, tensors_of(batch, count));
    HONE_ASSIGN(*loss, trainer->trainer.evaluate(named));
    return {};
  });
}

hone_code hone_trainer_model(const hone_trainer* trainer, hone_model** model, hone_error* error) {
  return guarded(error, {trainer, model}, [&]() -> Status {
    HONE_ASSIGN(hone::Model m, trainer->trainer.snapshot());
    return make(model, std::move(m));
  });
}

hone_code hone_trainer_save(const hone_trainer* trainer, const char* path, hone_error* error) {
  return guarded(error, {trainer, path}, [&]() -> Status {
    HONE_ASSIGN(hone::Trainer::State state, trainer->trainer.save());
    hone::Checkpoint c;
    c.tensors = std::move(state.entries);
    c.step = state.step;
    c.base_hash = trainer->base_hash;
    return hone::save_checkpoint(c, path);
  });
}

hone_code hone_trainer_restore(hone_trainer* trainer, const char* path, hone_error* error) {
  return guarded(error, {trainer, path}, [&]() -> Status {
    HONE_ASSIGN(hone::Checkpoint c, hone::load_checkpoint(path));
    if (c.base_hash != trainer->base_hash)
      return hone::invalid("{}: belongs to a training of another model", path);
    hone::Trainer::State state;
    state.entries = std::move(c.tensors);
    state.step = c.step;
    return trainer->trainer.restore(state).with_context(path);
  });
}

void hone_trainer_free(hone_trainer* trainer) { delete trainer; }
