#include "audio/transcriber.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "audio/speech_spans.h"
#include "base/fail.h"
#include "rlx/compile.h"
#include "rlx/onnx.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/reductions.h"

namespace rlx::audio {
namespace {

constexpr int64_t kRate = 16000;          // of what the network was trained with
constexpr double kMostSeconds = 30;       // of sound at a time
constexpr double kTokensPerSecond = 6.5;  // no one speaks faster: what comes beyond is repetition
constexpr int64_t kRoom = 256;            // tokens in the cache
constexpr int64_t kLeastSamples = 1600;   // the convolutions of the encoder need some

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string named_like(const std::string& input) {
  return "present" + input.substr(std::string_view("past_key_values").size());
}

// An input that is not used in a branch of the decoder, but must be given.
Tensor nothing(const TensorInfo& input) {
  std::vector<int64_t> shape;
  for (const Dim& d : input.type.shape) shape.push_back(d.is_static() ? d.value() : 0);
  return Tensor::zeros(input.type.dtype, shape);
}

// A branch of the decoder, which also returns the most likely token.
onnx::Model load_decoder(const std::string& path, bool cached,
                         std::map<std::string, Dim, std::less<>> sizes) {
  sizes.insert({{"batch_size", 1}, {"decoder_sequence_length", 1}});
  onnx::Model model = onnx::load(path, {.values = {{"use_cache_branch", Tensor::of<bool>({1}, {cached})}},
                                        .symbols = std::move(sizes),
                                        .cache_capacity = cached ? kRoom : 0});
  const auto logits = std::ranges::find(model.graph.outputs(), "logits", &Graph::Output::name);
  if (logits == model.graph.outputs().end())
    fail(ErrorKind::invalid_file, "{}: this is not Moonshine's decoder: it has no output 'logits'", path);
  const Value value = model.graph.value(logits->value);
  model.graph.output("token", argmax(value, -1));
  return model;
}

// The entries of [1, heads, n, size] with room behind them.
Tensor at_front(const Tensor& filled, const std::vector<int64_t>& shape) {
  if (filled.shape() == shape) return filled;
  std::vector<float> out(static_cast<size_t>(shape[1] * shape[2] * shape[3]));
  const std::span<const float> from = filled.span<float>();
  const int64_t length = filled.shape()[2] * shape[3];
  for (int64_t head = 0; head < shape[1]; ++head)
    std::copy_n(from.begin() + head * length, length, out.begin() + head * shape[2] * shape[3]);
  return Tensor::of(shape, out);
}

Executable compiled(const onnx::Model& model, const Device& device) {
  Executable out = compile(model.graph, device);
  out.set_params(model.weights);
  return out;
}

}  // namespace

std::string SpeechModels::missing() const {
  for (const std::string* file : {&encoder, &decoder, &vocabulary}) {
    if (!std::filesystem::exists(*file)) return *file;
  }
  return "";
}

Transcriber::Transcriber(const Device& device, SpeechModels models)
    : device_(device),
      models_(std::move(models)),
      vocabulary_(Vocabulary::read(models_.vocabulary)),
      encoder_([&] {
        const onnx::Model model = onnx::load(models_.encoder, {.symbols = {{"batch_size", 1}}});
        for (const auto& [name, weight] : model.weights) parameters_ += weight.elements();
        return compiled(model, device_);
      }()),
      begin_([&] {
        const onnx::Model model =
            load_decoder(models_.decoder, false,
                         {{"past_decoder_sequence_length", 0}, {"encoder_sequence_length_out", 0}});
        for (const auto& [name, weight] : model.weights) parameters_ += weight.elements();
        return compiled(model, device_);
      }()) {
  if (!std::ranges::contains(encoder_.inputs(), "input_values", &TensorInfo::name))
    fail(ErrorKind::invalid_file, "{}: this is not Moonshine's encoder: it has no input 'input_values'",
         models_.encoder);
}

void Transcriber::prepare_step(int64_t frames) {
  if (step_ && step_->frames == frames) return;
  const onnx::Model model = load_decoder(
      models_.decoder, true, {{"encoder_sequence_length", 0}, {"encoder_sequence_length_out", frames}});
  std::string length;
  for (const onnx::Cache& cache : model.caches) {
    if (!cache.length.empty()) length = cache.length;
  }
  step_.emplace(frames, compiled(model, device_), length);
}

std::string Transcriber::piece(std::span<const float> samples, const Listener& listener) {
  std::vector<float> padded(samples.begin(), samples.end());
  padded.resize(std::max<size_t>(padded.size(), kLeastSamples));
  const double start = now_ms();
  const Tensor sound = Tensor::of({1, std::ssize(padded)}, padded);
  const Tensor hidden = encoder_.run({{"input_values", sound}}).at("last_hidden_state");
  const double encoded = now_ms();
  times_.encode_ms += encoded - start;

  NamedTensors first = {{"input_ids", Tensor::of<int64_t>({1, 1}, {Vocabulary::kBegin})},
                        {"encoder_hidden_states", hidden}};
  for (const TensorInfo& input : begin_.inputs()) {
    if (!first.contains(input.name)) first.emplace(input.name, nothing(input));
  }
  const NamedTensors caches = begin_.run(first);
  prepare_step(hidden.shape()[1]);
  Executable& step = step_->executable;
  for (const TensorInfo& state : step.states()) {
    const Tensor& filled = caches.at(named_like(state.name));
    step.write_state(state.name, at_front(filled, state.type.shape.values()));
  }
  NamedTensors inputs;
  for (const TensorInfo& input : step.inputs()) inputs.emplace(input.name, nothing(input));

  const double seconds = static_cast<double>(samples.size()) / kRate;
  const auto most =
      std::min<int64_t>(kRoom - 1, static_cast<int64_t>(std::ceil(kTokensPerSecond * seconds)) + 8);
  std::string text;
  int64_t token = caches.at("token").integer(0);
  for (int64_t count = 1; token != Vocabulary::kEnd && count <= most; ++count) {
    ++times_.tokens;
    std::string added = vocabulary_.text(token);
    if (text.empty() && added.starts_with(' ')) added.erase(0, 1);
    text += added;
    if (listener) listener(added);
    inputs.insert_or_assign("input_ids", Tensor::of<int64_t>({1, 1}, {token}));
    token = step.run_async(inputs, {"token"}, {{step_->length, count + 1}}).get().at("token").integer(0);
  }
  times_.decode_ms += now_ms() - encoded;
  return text;
}

std::string Transcript::text() const {
  std::string out;
  for (const Utterance& u : utterances) {
    if (!out.empty()) out += ' ';
    out += u.text;
  }
  return out;
}

Transcript Transcriber::transcribe(const Sound& sound, const Listener& listener, const Heard& heard) {
  const Sound input = resampled(sound, kRate);
  const auto seconds = [](int64_t at) { return static_cast<double>(at) / kRate; };
  Transcript out;
  for (const SampleSpan span : speech_spans(input.samples, kRate, kMostSeconds)) {
    if (heard) heard(seconds(span.begin));
    // The space before the words of the next part is only due if it has some.
    bool spoken = out.utterances.empty();
    const auto pass_on = [&](std::string_view words) {
      if (!spoken) listener(" ");
      spoken = true;
      listener(words);
    };
    const std::span<const float> samples =
        std::span(input.samples)
            .subspan(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
    std::string text = piece(samples, listener ? Listener(pass_on) : Listener());
    if (text.empty()) continue;
    out.utterances.push_back({seconds(span.begin), seconds(span.end), std::move(text)});
  }
  if (heard) heard(input.seconds());
  return out;
}

}  // namespace rlx::audio
