// SPDX-License-Identifier: Apache-2.0
#include "core/cli/planning.hpp"

#include <cstdio>
#include <filesystem>

#include "core/base/file.hpp"
#include "core/cli/plan_view.hpp"
#include "core/cli/stand_in.hpp"

namespace hone::cli {

namespace {

Result<PlanView> make_plan(const PlanArgs& a, const std::string& file, const Model& m) {
  HONE_ASSIGN(const SessionOptions options, a.device.session());
  HONE_ASSIGN(const std::vector<Shape> shapes, a.dims.shapes(m.graph));
  PlanView view;
  view.title = format("{} of {}", a.train ? "Training step (AdamW)" : "Inference",
                      std::filesystem::path(file).filename().string());
  for (size_t i = 0; i < shapes.size(); ++i)
    view.title += format("{} {} {}", i == 0 ? "," : "", m.graph.value(m.graph.inputs[i]).name,
                         to_string(shapes[i]));
  if (a.train) {
    HONE_ASSIGN(const std::vector<NamedTensor> batch, made_up_inputs(m.graph, shapes));
    TrainerOptions training = stand_in_training(options);
    training.recompute_share = a.recompute_share;
    HONE_ASSIGN(Trainer trainer, Trainer::create(m, std::move(training)));
    HONE_ASSIGN(view.info, trainer.plan(batch));
    HONE_ASSIGN(view.detail, trainer.plan_detail(batch));
  } else {
    HONE_ASSIGN(Session session, Session::create(m, options));
    HONE_ASSIGN(view.info, session.plan(shapes));
    HONE_ASSIGN(view.detail, session.plan_detail(shapes));
  }
  return view;
}

}  // namespace

void PlanArgs::add_to(CLI::App& command, CLI::Option* plan) {
  command.add_flag(
      "--train", train,
      "Plan a training step (AdamW, a stand-in loss on the model's outputs) rather than "
      "an inference");
  command.add_option("--recompute-share", recompute_share, kRecomputeShareHelp)
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--picture", picture,
                  "Write a picture of the memory over time: FILE.svg, or FILE.html with an "
                  "explanation and the tables")
      ->type_name("FILE")
      ->needs(plan);
  dims.add_to(command);
  device.add_to(command);
}

Status check(const PlanArgs& a) {
  if (a.picture.empty() || a.picture.ends_with(".svg") || a.picture.ends_with(".html")) return {};
  return invalid("--picture {}: the name must end in .svg or .html", a.picture);
}

Status show_plan(const PlanArgs& a, const std::string& file, const Model& m) {
  HONE_ASSIGN(const PlanView view, make_plan(a, file, m));
  std::printf("%s", plan_text(view).c_str());
  if (a.picture.empty()) return {};
  HONE_TRY(write_file(a.picture, a.picture.ends_with(".html") ? plan_html(view) : plan_svg(view)));
  std::printf("\nwrote %s\n", a.picture.c_str());
  return {};
}

}  // namespace hone::cli
