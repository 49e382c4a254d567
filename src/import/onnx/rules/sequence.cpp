// Sequences and optionals. They are lists while importing: what a node does with one is done here, and leaves
// nothing on the device.
#include <algorithm>

#include "import/onnx/importer.h"
#include "import/onnx/rules.h"
#include "import/onnx/unrolled.h"
#include "rlx/ops/rearrange.h"
#include "rlx/ops/reductions.h"

namespace rlx::onnx {
namespace {

void out_list(Call& c, std::vector<Imported> elements, ElementType type) {
  if (std::ssize(elements) > kMaxSequence)
    c.refuse(Refusal::other, "its sequence has {} tensors; {} are the most", elements.size(), kMaxSequence);
  c.importer().spend(1 + std::ssize(elements));
  c.out(0, Imported::sequence(std::move(elements), type));
}

// The type of a sequence that gets one more tensor: that of the tensors in it.
ElementType common_type(const Imported& sequence, const Imported& added) {
  if (!sequence.elements->empty() && sequence.type != added.type)
    fail("its tensor is {}, but its sequence has {}", to_string(added.type), to_string(sequence.type));
  return added.type;
}

// The place that an input says, counted from the end if it is negative; nothing if only the run knows it.
std::optional<size_t> place(Call& c, int64_t input, int64_t end) {
  const std::optional<int64_t> at = known_number(c, c.imported(input));
  if (!at) return std::nullopt;
  const int64_t length = std::ssize(c.elements(0));
  if (*at < -length || *at >= end)
    fail("its position is {}; its sequence has {} tensor{}", *at, length, length == 1 ? "" : "s");
  return static_cast<size_t>(*at < 0 ? *at + length : *at);
}

size_t known_place(Call& c, int64_t input, int64_t end) {
  const std::optional<size_t> at = place(c, input, end);
  if (!at) {
    if (c.known(input)) static_cast<void>(c.number(input, "its position"));  // says on which size it depends
    c.importer().need_host_value(c.in(input), "its position");
  }
  return *at;
}

// --- Sequences ---

void construct_rule(Call& c) {
  c.expect_inputs(1, 1 << 20);
  std::vector<Imported> elements;
  for (int64_t i = 0; i < c.input_count(); ++i) {
    if (c.type(i) != c.type(0))
      fail("its inputs are {} and {}; a sequence has one type", to_string(c.type(0)), to_string(c.type(i)));
    elements.push_back(c.imported(i));
  }
  out_list(c, std::move(elements), c.type(0));
}

void empty_rule(Call& c) {
  c.expect_inputs(0, 0);
  out_list(c, {}, c.element_type("dtype", ElementType::float32));
}

// Where only the run knows the position, the tensors are rows of one, if they are alike.
void at_run_time(Call& c) {
  const std::vector<Imported>& list = c.elements(0);
  std::vector<Imported> rows = list;
  for (Imported& row : rows) c.importer().materialize(c.frame(), row);
  const auto alike = [&](const Imported& row) { return row.value.type() == rows[0].value.type(); };
  if (rows.empty()) fail("its sequence has no tensors");
  if (!std::ranges::all_of(rows, alike))
    c.importer().need_host_value(c.in(1), "which of several shapes its output has");
  Imported position{.type = c.type(1), .value = reshape(c.in(1), {})};
  c.out(0, c.importer().derived(c.frame(), c.node(), "Gather",
                                {joined_tensors(c, rows, 0, true), std::move(position)}));
}

void at_rule(Call& c) {
  c.expect_inputs(2, 2);
  const std::vector<Imported>& list = c.elements(0);
  const std::optional<size_t> at = place(c, 1, std::ssize(list));
  if (!at) return at_run_time(c);
  c.out(0, list[*at]);
}

void insert_rule(Call& c) {
  c.expect_inputs(2, 3);
  std::vector<Imported> list = c.elements(0);
  const auto length = std::ssize(list);
  const size_t at = c.has(2) ? known_place(c, 2, length + 1) : list.size();
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), c.imported(1));
  out_list(c, std::move(list), common_type(c.any(0), c.imported(1)));
}

void erase_rule(Call& c) {
  c.expect_inputs(1, 2);
  std::vector<Imported> list = c.elements(0);
  if (list.empty()) fail("its sequence has no tensors");
  const size_t at = c.has(1) ? known_place(c, 1, std::ssize(list)) : list.size() - 1;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
  out_list(c, std::move(list), c.any(0).type);
}

void length_rule(Call& c) {
  c.expect_inputs(1, 1);
  c.out(0, Ints::scalar(std::ssize(c.elements(0))), ElementType::int64);
}

// The sizes of the pieces: as a list says, or all equal but the last.
std::vector<Dim> piece_sizes(Call& c, const Dim& size) {
  if (c.has(1) && c.rank(1) > 0) return c.dims(1, "the list of sizes");
  const int64_t each = c.has(1) ? c.number(1, "the size of its pieces") : 1;
  if (each < 1) fail("the size of its pieces is {}", each);
  if (!size.is_static())
    c.refuse(Refusal::other,
             "the number of its pieces depends on the size {}, which must be given with the model",
             size.text());
  const int64_t count = size.value() / each + (size.value() % each != 0 ? 1 : 0);
  if (count > kMaxSequence)
    c.refuse(Refusal::other, "it splits an axis of {} into {} pieces; {} are the most", size.text(), count,
             kMaxSequence);
  std::vector<Dim> out(static_cast<size_t>(count), Dim(each));
  if (count > 0) out.back() = size - Dim(each * (count - 1));
  return out;
}

Imported piece(Call& c, int64_t axis, const Dim& start, const Dim& size) {
  if (!c.known(0)) return {.type = c.type(0), .value = slice(c.imported(0).value, axis, start, size)};
  const auto one = [](const Dim& d) {
    return Imported{.type = ElementType::int64, .ints = Ints::vector({d})};
  };
  return c.importer().derived(c.frame(), c.node(), "Slice",
                              {c.imported(0), one(start), one(start + size), one(Dim(axis))});
}

void split_rule(Call& c) {
  c.expect_inputs(1, 2);
  const int64_t axis = c.axis("axis", 0, c.rank(0));
  const bool drops_axis = !c.flag("keepdims", true) && !c.has(1);
  const Dim size = c.shape(0)[axis];
  const std::vector<Dim> sizes = piece_sizes(c, size);
  if (std::ssize(sizes) > kMaxSequence)
    c.refuse(Refusal::other, "it splits into {} pieces; {} are the most", sizes.size(), kMaxSequence);
  Dim sum(0);
  for (const Dim& d : sizes) {
    if (d.is_static() && d.value() < 0) fail("one of its sizes is {}", d.text());
    sum += d;
  }
  if (sum.is_static() && size.is_static() && !(sum == size))
    fail("its sizes add up to {}, but axis {} has {}", sum.text(), axis, size.text());
  Dim start(0);
  std::vector<Imported> elements;
  for (const Dim& d : sizes) {
    Imported part = piece(c, axis, start, d);
    if (drops_axis) {
      const Imported axes{.type = ElementType::int64, .ints = Ints::vector({Dim(axis)})};
      part = c.importer().derived(c.frame(), c.node(), "Squeeze", {std::move(part), axes});
    }
    elements.push_back(std::move(part));
    start += d;
  }
  out_list(c, std::move(elements), c.type(0));
}

void concat_rule(Call& c) {
  c.expect_inputs(1, 1);
  const std::vector<Imported>& list = c.elements(0);
  if (list.empty()) fail("its sequence has no tensors");
  const bool new_axis = c.flag("new_axis", false);
  const Imported& first = list[0];
  const int64_t rank = first.ints ? std::ssize(first.ints->shape) : first.value.shape().rank();
  const int64_t axis = Call::normalized(c.integer("axis"), rank + (new_axis ? 1 : 0));
  c.out(0, joined_tensors(c, list, axis, new_axis));
}

// The body once for each tensor of the first sequence; the other inputs are sequences of the same length, or
// tensors that are the same each time.
void map_rule(Call& c) {
  c.expect_inputs(1, 1 << 20);
  const GraphProto& body = c.subgraph("body");
  const int64_t length = std::ssize(c.elements(0));
  if (const int64_t most = most_copies(c, body); length > most)
    c.refuse(Refusal::other, "it maps {} tensors; {} are the most here", length, most);
  std::vector<std::vector<Imported>> results(static_cast<size_t>(c.output_count()));
  for (int64_t k = 0; k < length; ++k) {
    std::vector<Imported> inputs;
    for (int64_t i = 0; i < c.input_count(); ++i) {
      const Imported& in = c.any(i);
      if (in.elements && std::ssize(*in.elements) != length)
        fail("its sequences have {} and {} tensors", length, in.elements->size());
      inputs.push_back(in.elements ? (*in.elements)[static_cast<size_t>(k)] : in);
    }
    spend_copy(c, inputs);
    const std::vector<Imported> made =
        c.importer().inlined(c.frame(), body, inputs, formatted("{}[{}]", node_name(c.node()), k));
    if (made.size() != results.size())
      fail("its body has {} outputs, and the node {}", made.size(), results.size());
    for (size_t i = 0; i < made.size(); ++i) results[i].push_back(made[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const ElementType type = !results[i].empty()       ? results[i][0].type
                             : i < body.outputs.size() ? body.outputs[i].type
                                                       : ElementType::undefined;
    c.out(static_cast<int64_t>(i), Imported::sequence(std::move(results[i]), type));
  }
}

// --- Optionals ---

void optional_rule(Call& c) {
  c.expect_inputs(0, 1);
  c.ignores("type");
  c.out(0, c.has(0) ? c.any(0) : Imported{.absent = true});
}

void get_element_rule(Call& c) {
  c.expect_inputs(1, 1);
  if (c.any(0).absent) fail("its input is {}", c.any(0).what());
  c.out(0, c.any(0));
}

void has_element_rule(Call& c) {
  c.expect_inputs(0, 1);
  c.out(0, Ints::scalar(c.has(0) && !c.any(0).absent ? 1 : 0), ElementType::boolean);
}

}  // namespace

namespace rules {
void register_sequence(RuleTable& table) {
  table.add("SequenceConstruct", construct_rule);
  table.add("SequenceEmpty", empty_rule);
  table.add("SequenceAt", at_rule);
  table.add("SequenceInsert", insert_rule);
  table.add("SequenceErase", erase_rule);
  table.add("SequenceLength", length_rule);
  table.add("SequenceMap", map_rule);
  table.add("SplitToSequence", split_rule);
  table.add("ConcatFromSequence", concat_rule);
  table.add("Optional", optional_rule);
  table.add("OptionalGetElement", get_element_rule);
  table.add("OptionalHasElement", has_element_rule);
}
}  // namespace rules

}  // namespace rlx::onnx
