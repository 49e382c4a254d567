// Moonshine: an encoder for the whole sound, and a decoder that adds one token at a time and keeps its caches
// on the device.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "audio/resample.h"
#include "audio/speech_spans.h"
#include "audio/vocabulary.h"
#include "base/border.h"
#include "base/fail.h"
#include "base/flags.h"
#include "rlx/compile.h"
#include "rlx/context.h"
#include "rlx/onnx.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"
#include "rlx/speech.h"
#include "rlx/store.h"

namespace rlx::audio {
namespace {

constexpr int64_t kRate = 16000;          // of what the network was trained with
constexpr double kMostSeconds = 30;       // of sound at a time
constexpr double kTokensPerSecond = 6.5;  // no one speaks faster: what comes beyond is repetition
constexpr int64_t kRoom = 256;            // tokens in the cache
constexpr int64_t kMostFrames = 1280;     // of the encoder: one for each 384 samples
constexpr int64_t kLeastSamples = 1600;   // the convolutions of the encoder need some

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
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
                                        .cache_capacity = cached ? kRoom : 0,
                                        .capacities = {{"encoder_sequence_length", kMostFrames},
                                                       {"encoder_sequence_length_out", kMostFrames}}});
  const auto logits = std::ranges::find(model.graph.outputs(), "logits", &Graph::Output::name);
  if (logits == model.graph.outputs().end())
    fail(ErrorKind::invalid_file, "{}: this is not Moonshine's decoder: it has no output 'logits'", path);
  const Value value = model.graph.value(logits->value);
  model.graph.output("token", argmax(value, -1));
  return model;
}

// Puts what the first step returns into the states of the others.
Graph fill_graph(const std::vector<onnx::Cache>& caches, const Graph& step) {
  Graph g;
  g.name = "fill";
  for (const onnx::Cache& cache : caches) {
    const TensorType& type = step.node(step.find(cache.state)).outputs[0];
    const std::string symbol = cache.kept.empty() ? "tokens" : cache.kept;
    Shape shape = type.shape;  // [batch, heads, positions, size]
    shape[2] = Dim::symbol(symbol);
    const Value made = g.input(cache.output, type.dtype, shape);
    g.output(cache.state, write_state(g.state(cache.state, type.dtype, type.shape), made, 2, 0));
    g.set_capacity(symbol, type.shape[2].value());
  }
  return g;
}

struct Decoder {
  onnx::Model begin, step;
  Store weights;
  std::string tokens, frames;

  Decoder(const Device& device, const std::string& path)
      : begin(load_decoder(path, false,
                           {{"past_decoder_sequence_length", 0}, {"encoder_sequence_length_out", 0}})),
        step(load_decoder(path, true, {{"encoder_sequence_length", 0}})),
        weights(device) {
    NamedTensors all = begin.weights;
    all.insert(step.weights.begin(), step.weights.end());
    weights.set(all);
    for (const onnx::Cache& cache : step.caches) {
      if (!cache.length.empty()) tokens = cache.length;
      if (!cache.kept.empty()) frames = cache.kept;
    }
  }
};

}  // namespace

SpeechModels SpeechModels::in(const std::string& folder) {
  return {.encoder = folder + "/encoder_model.onnx",
          .decoder = folder + "/decoder_model_merged.onnx",
          .vocabulary = folder + "/llama-tokenizer.js"};
}

// tools/models.sh puts them there.
SpeechModels SpeechModels::usual() {
  const std::string cache = cache_folder() + "/models/";
  SpeechModels out = in(cache + "usefulsensors-moonshine-js-0.1.2/dist/model/tiny/float");
  out.vocabulary = cache + "llama-tokenizer-js-1.2.2/llama-tokenizer.js";
  return out;
}

std::string SpeechModels::missing() const {
  for (const std::string* file : {&encoder, &decoder, &vocabulary}) {
    if (!std::filesystem::exists(*file)) return *file;
  }
  return "";
}

struct Transcriber::Impl {
  Impl(const Device& device, const SpeechModels& models)
      : Impl(device, models, Decoder(device, models.decoder)) {}
  Impl(const Device& device, const SpeechModels& models, Decoder decoder);

  Transcript transcribe(const Sound& sound, const Listener& listener, const Heard& heard);
  std::string piece(std::span<const float> samples, const Listener& listener);

  Vocabulary vocabulary;
  int64_t parameters = 0;
  Executable encoder;
  // The decoder, three graphs on one set of weights: the first token, with the caches as results; what puts
  // these into states; and a further token with these states.
  Executable begin, fill, step;
  std::string tokens_symbol, frames_symbol;  // for how many tokens there are in the end, and encoded frames
  Context caches;
  SpeechTimes times;
};

Transcriber::Impl::Impl(const Device& device, const SpeechModels& models, Decoder decoder)
    : vocabulary(Vocabulary::read(models.vocabulary)),
      encoder([&] {
        const onnx::Model model = onnx::load(models.encoder, {.symbols = {{"batch_size", 1}}});
        for (const auto& [name, weight] : model.weights) parameters += weight.elements();
        Executable out = compile(model.graph, device);
        out.set_params(model.weights);
        return out;
      }()),
      begin(compile(decoder.begin.graph, decoder.weights)),
      fill(compile(fill_graph(decoder.step.caches, decoder.step.graph), device)),
      step(compile(decoder.step.graph, decoder.weights)),
      tokens_symbol(decoder.tokens),
      frames_symbol(decoder.frames),
      caches(device) {
  for (const TensorInfo& weight : decoder.weights.tensors())
    parameters += weight.type.shape.elements().value();
  if (!std::ranges::contains(encoder.inputs(), "input_values", &TensorInfo::name))
    fail(ErrorKind::invalid_file, "{}: this is not Moonshine's encoder: it has no input 'input_values'",
         models.encoder);
}

std::string Transcriber::Impl::piece(std::span<const float> samples, const Listener& listener) {
  std::vector<float> padded(samples.begin(), samples.end());
  padded.resize(std::max<size_t>(padded.size(), kLeastSamples));
  const double start = now_ms();
  const Tensor sound = Tensor::of({1, std::ssize(padded)}, padded);
  const DeviceTensor hidden =
      encoder.run_on_device({{"input_values", sound}}, {"last_hidden_state"}).at("last_hidden_state");
  const int64_t frames = hidden.shape()[1];
  const double encoded = now_ms();
  times.encode_ms += encoded - start;

  std::vector<RunInputs::Item> first = {{"input_ids", Tensor::of<int64_t>({1, 1}, {Vocabulary::kBegin})},
                                        {"encoder_hidden_states", hidden}};
  for (const TensorInfo& input : begin.inputs()) {
    if (!std::ranges::contains(first, input.name, &RunInputs::Item::name))
      first.push_back({input.name, nothing(input)});
  }
  NamedDeviceTensors begun = begin.run_on_device(first);
  int64_t token = begun.at("token").read().integer(0);
  begun.erase("token");
  begun.erase("logits");
  fill.run_on_device(caches, begun);
  NamedTensors inputs;
  for (const TensorInfo& input : step.inputs()) inputs.emplace(input.name, nothing(input));

  const double seconds = static_cast<double>(samples.size()) / kRate;
  const auto most =
      std::min<int64_t>(kRoom - 1, static_cast<int64_t>(std::ceil(kTokensPerSecond * seconds)) + 8);
  std::string text;
  for (int64_t count = 1; token != Vocabulary::kEnd && count <= most; ++count) {
    ++times.tokens;
    std::string added = vocabulary.text(token);
    if (text.empty() && added.starts_with(' ')) added.erase(0, 1);
    text += added;
    if (listener) listener(added);
    inputs.insert_or_assign("input_ids", Tensor::of<int64_t>({1, 1}, {token}));
    token = step.run_async(caches, inputs, {"token"}, {{tokens_symbol, count + 1}, {frames_symbol, frames}})
                .get()
                .at("token")
                .integer(0);
  }
  times.decode_ms += now_ms() - encoded;
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

Transcript Transcriber::Impl::transcribe(const Sound& sound, const Listener& listener, const Heard& heard) {
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

Transcriber::Transcriber(const Device& device, const SpeechModels& models) try
    : impl_(std::make_unique<Impl>(device, models)) {
} catch (...) {
  throw_as_error("loading the networks that write down speech");
}
Transcriber::~Transcriber() = default;

Transcript Transcriber::transcribe(const Sound& sound, const Listener& listener, const Heard& heard) try {
  if (sound.rate <= 0)
    fail(ErrorKind::invalid_argument, "the sound has {} samples per second; it must have at least 1",
         sound.rate);
  return impl_->transcribe(sound, listener, heard);
} catch (...) {
  throw_as_error("writing down speech");
}

const SpeechTimes& Transcriber::times() const { return impl_->times; }
int64_t Transcriber::parameters() const { return impl_->parameters; }
const Executable& Transcriber::encoder() const { return impl_->encoder; }
const Executable& Transcriber::step() const { return impl_->step; }

}  // namespace rlx::audio
