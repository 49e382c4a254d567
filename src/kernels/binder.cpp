#include "kernels/binder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/checked.h"
#include "encodings/encoding.h"
#include "kernels/lib.wgsl.h"

namespace rlx {

namespace {
constexpr int64_t kFlatGroup = kernels::lib::prelude::FLAT_GROUP;
}  // namespace

int64_t elements_per_word(DType dtype, const Caps& caps) {
  if (dtype == DType::f16 && caps.shader_f16) return 1;
  return std::max<int64_t>(1, 4 / static_cast<int64_t>(device_bytes(dtype)));
}

std::string_view wgsl_type(DType dtype) {
  switch (dtype) {
    case DType::i32:
    case DType::i64:
    case DType::i8:
      return "i32";
    case DType::u32:
    case DType::u8:
      return "u32";
    case DType::bool_:
      return "bool";
    case DType::c64:
      return "vec2f";
    default:
      return "f32";
  }
}

bool cpu_lanes(const Caps& caps) {
  return caps.software() && caps.subgroups && caps.subgroup_min_size == caps.subgroup_max_size &&
         std::has_single_bit(caps.subgroup_max_size) && caps.subgroup_max_size <= kFlatGroup;
}

int64_t flat_pieces(const Caps& caps) {
  return kFlatGroup *
         int64_t{cpu_lanes(caps) ? kernels::lib::lanes_cpu::FLAT_EACH : kernels::lib::prelude::FLAT_EACH};
}

bool calls_walk(const OperandDecl& o, WalkPart part) {
  return part == WalkPart::outer   ? o.calls.base
         : part == WalkPart::inner ? o.calls.step
                                   : o.calls.walks_flat();
}

namespace {

bool is_packed(DType dtype, bool f16) { return device_bytes(dtype) < 4 && !(dtype == DType::f16 && f16); }

// The bytes of a storage in which these elements lie: whole blocks if they are encoded, from the first of
// those that lie together on, since what belongs to the others begins there.
View::Range bytes_of(DType dtype, View::Range elements) {
  const int64_t block = block_elements(dtype);
  const int64_t together = is_encoded(dtype) ? block * encoding_of(dtype).device_blocks() : 1;
  return {device_bytes_of(dtype, elements.begin / together * together),
          device_bytes_of(dtype, round_up(elements.end, block))};
}

// The bytes of its storage that an operand touches, widened to what can be bound.
View::Range byte_range(const Operand& o) {
  const bool windowed = o.window.end > o.window.begin;
  const View::Range r = bytes_of(o.dtype, windowed ? o.window : o.view.range());
  const int64_t begin = r.begin / kBindingAlignment * kBindingAlignment;
  // Reads of whole vec4s and words may reach a little beyond the last element; slots are padded for it.
  return {begin, std::max(round_up(r.end, 16), begin + 16)};
}

Element natural_element(DType dtype, bool f16, bool x4) {
  switch (dtype) {
    case DType::f32:
      return x4 ? Element::vec4f : Element::f32;
    case DType::f16:
      return !f16 ? Element::word : x4 ? Element::vec4h : Element::f16;
    case DType::i32:
    case DType::i64:
      return Element::i32;
    case DType::u32:
      return Element::u32;
    case DType::c64:
      return Element::vec2f;
    default:
      return Element::word;
  }
}

// Vectors need whole vectors before them; slots are aligned, so it is the view's offset that decides.
bool aligned4(const Operand& o) { return o.view.offset % 4 == 0; }

// Operands that touch the same bytes of a buffer, and so share bindings.
struct Cluster {
  int32_t buffer;
  View::Range bytes;  // in the buffer
  bool written = false;
  InlineVector<size_t, 6> operands;
};
using Clusters = InlineVector<Cluster, 6>;

int64_t segment_bytes(const Caps& caps) {
  return static_cast<int64_t>(caps.max_binding_bytes) / kBindingAlignment * kBindingAlignment;
}

// What is bound for an operand: all of a storage that it alone uses and that fits in a binding, so that a
// slice that moves or grows (a cache, from run to run) keeps its bind group; else what the operand touches.
View::Range bound_range(const Dispatch& d, const Operand& o, const Placement& place, const Caps& caps) {
  const View::Range r = byte_range(o);
  const bool alone = std::ranges::count(d.operands, o.storage, &Operand::storage) == 1;
  const bool small = place.bytes > 0 && place.bytes <= segment_bytes(caps);  // 0: not placed yet
  const bool whole = o.window.begin == o.window.end && alone && small;
  return whole ? View::Range{0, std::max(r.end, round_up(place.bytes, 16))} : r;
}

// `place_of` says where a storage is.
template <class F>
Clusters make_clusters(const Dispatch& d, const Caps& caps, F&& place_of) {
  Clusters clusters;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    const Operand& o = d.operands[i];
    if (!o.present()) continue;
    const Placement place = place_of(o.storage);
    const View::Range r = bound_range(d, o, place, caps);
    clusters.push_back(
        {place.buffer, {place.offset + r.begin, place.offset + r.end}, d.kernel->operands[i].out, {i}});
  }
  // Joins those that overlap until none do; quadratic, but a dispatch has only a handful of operands.
  for (size_t a = 0; a < clusters.size(); ++a) {
    for (size_t b = a + 1; b < clusters.size(); ++b) {
      Cluster& x = clusters[a];
      const Cluster& y = clusters[b];
      if (x.buffer != y.buffer || x.bytes.end <= y.bytes.begin || y.bytes.end <= x.bytes.begin) continue;
      x.bytes = {std::min(x.bytes.begin, y.bytes.begin), std::max(x.bytes.end, y.bytes.end)};
      x.written |= y.written;
      x.operands.insert(x.operands.end(), y.operands.begin(), y.operands.end());
      clusters.erase(clusters.begin() + b);
      b = a;  // the grown range may reach others
    }
  }
  return clusters;
}

Element cluster_element(const Dispatch& d, const Cluster& c, bool f16) {
  bool atomic = false;
  bool mixed = false;
  std::optional<Element> first;
  for (size_t i : c.operands) {
    const OperandDecl& decl = d.kernel->operands[i];
    const DType dtype = d.operands[i].dtype;
    const Element e = natural_element(dtype, f16, decl.x4 && d.operands[i].x4 && aligned4(d.operands[i]));
    mixed |= first.has_value() && *first != e;
    first = e;
    // Words that the kernel writes in pieces have elements of other invocations too.
    const bool whole = d.kernel->flat || (decl.x4 && !decl.calls.put && aligned4(d.operands[i]));
    atomic |= decl.out && (decl.atomic || (is_packed(dtype, f16) && !whole));
  }
  if (!atomic) return mixed ? Element::word : *first;
  return !mixed && *first == Element::i32 ? Element::atomic_i32 : Element::atomic_word;
}

// The dims and strides by which axes are walked.
struct Walk {
  View view;
  bool unit = true;
  WalkPattern pattern() const { return {static_cast<int32_t>(view.rank()), unit}; }
};

// A walk that also serves what `like` serves: it has at least as many axes, and a stride for the last axis
// where `like` has one.
Walk make_walk(const View& view, const WalkPattern* like) {
  Walk w{view.coalesced()};
  View& v = w.view;
  w.unit = v.rank() == 0 || v.strides.back() == 1;
  while (like && v.rank() < like->rank) {
    v.strides.insert(v.strides.begin(), v.rank() == 0 ? 1 : 0);
    v.dims.insert(v.dims.begin(), 1);
  }
  if (like && like->rank > 0) w.unit = w.unit && like->unit;
  return w;
}

View axes_of(const Operand& o, WalkPart part) {
  return part == WalkPart::outer   ? o.view.slice_axes(0, o.outer_rank)
         : part == WalkPart::inner ? o.view.slice_axes(o.outer_rank, o.view.rank())
                                   : o.view;
}

// The walks over an operand that the kernel uses; their patterns go to `p`.
std::array<Walk, 3> make_walks(const OperandDecl& decl, const Operand& o, const OperandPattern* like,
                               OperandPattern& p) {
  std::array<Walk, 3> walks;
  for (const WalkPart part : kWalkParts) {
    if (!calls_walk(decl, part)) continue;
    Walk& walk = walks[static_cast<size_t>(part)];
    walk = make_walk(axes_of(o, part), like ? &like->walk(part) : nullptr);
    p.walk(part) = walk.pattern();
  }
  return walks;
}

// The grid as three numbers within the limit of each dimension.
void split_grid(int64_t groups, int64_t limit, uint32_t grid[3]) {
  const int64_t x = std::min(groups, limit);
  const int64_t y = std::min(ceil_div(groups, x), limit);
  grid[0] = to_u32(x);
  grid[1] = to_u32(y);
  grid[2] = to_u32(ceil_div(groups, x * y));
}

}  // namespace

BoundParts bind_dispatch(const Dispatch& d, const std::vector<Placement>& placements, const Caps& caps,
                         const Pattern* like) {
  if (like && like->operands.size() != d.operands.size()) like = nullptr;
  BoundDispatch bound;
  bound.kernel = d.kernel;
  bound.params = d.params;
  bound.node = d.node;
  bound.variant = d.variant;
  Pattern& pattern = bound.pattern;
  pattern.specs = d.specs;
  pattern.partial = d.partial;
  pattern.operands.resize(d.operands.size());
  pattern.f16 = caps.shader_f16 && std::ranges::any_of(d.operands, [](const Operand& o) {
                  return o.present() && o.dtype == DType::f16;
                });
  pattern.cpu_lanes = d.kernel->invocation && cpu_lanes(caps);
  bound.views = {0, to_u32(d.groups)};

  const auto place_of = [&](int32_t storage) { return placements[static_cast<size_t>(storage)]; };
  const Clusters clusters = make_clusters(d, caps, place_of);
  // A buffer that is written anywhere in the dispatch is bound for writing everywhere in it.
  const auto written = [&](int32_t buffer) {
    return std::ranges::any_of(clusters, [&](const Cluster& c) { return c.buffer == buffer && c.written; });
  };
  InlineVector<int64_t, 6> cluster_begin(d.operands.size());
  const int64_t segment = segment_bytes(caps);
  for (const Cluster& c : clusters) {
    const auto first = static_cast<int32_t>(bound.ranges.size());
    const Element element = cluster_element(d, c, pattern.f16);
    const int64_t size = c.bytes.end - c.bytes.begin;
    const int64_t segments = ceil_div(size, segment);
    if (segments > 1) pattern.segment_bytes = segment;
    for (int64_t s = 0; s < segments; ++s) {
      bound.ranges.push_back({c.buffer, c.bytes.begin + s * segment, std::min(segment, size - s * segment)});
      pattern.bindings.push_back({element, written(c.buffer)});
    }
    for (size_t i : c.operands) {
      pattern.operands[i].first_binding = first;
      pattern.operands[i].segments = static_cast<int32_t>(segments);
      cluster_begin[i] = c.bytes.begin;
    }
  }
  check(bound.ranges.size() <= caps.max_storage_buffers,
        "a dispatch was lowered to what the device can bind");

  for (size_t i = 0; i < d.operands.size(); ++i) {
    const Operand& o = d.operands[i];
    OperandPattern& p = pattern.operands[i];
    if (!o.present()) continue;
    p.present = true;
    p.dtype = o.dtype;
    const OperandDecl& decl = d.kernel->operands[i];
    p.aligned4 = decl.x4 && aligned4(o);
    p.windowed = o.window.end > o.window.begin && decl.calls.has;
    const std::array<Walk, 3> walks = make_walks(decl, o, like ? &like->operands[i] : nullptr, p);
    const bool encoded = is_encoded(o.dtype);
    if (encoded) to_u32(o.view.range().end);  // the shader counts elements from the begin of the storage
    const int64_t bytes = encoded ? 4 : static_cast<int64_t>(device_bytes(o.dtype));
    const Placement& place = placements[static_cast<size_t>(o.storage)];
    for_each_view_word(decl, p, [&](const ViewWord& w) {
      const View& walked = walks[static_cast<size_t>(w.part)].view;
      const auto axis = static_cast<size_t>(w.axis);
      const auto value = [&]() -> int64_t {
        switch (w.kind) {
          case ViewWord::Kind::offset:
            return o.view.offset + (encoded ? 0 : (place.offset - cluster_begin[i]) / bytes);
          case ViewWord::Kind::start:
            return (place.offset - cluster_begin[i]) / bytes;
          case ViewWord::Kind::window_begin:
            return o.window.begin - o.view.offset;
          case ViewWord::Kind::window_length:
            return to_u32(o.window.end - o.window.begin);
          case ViewWord::Kind::dim:
            return to_u32(walked.dims[axis]);
          case ViewWord::Kind::stride:
            return to_i32(walked.strides[axis]);
        }
        return 0;
      };
      // Modulo 2^32: a window can begin after the view does, and positions in the window still come out
      // right.
      bound.views.push_back(static_cast<uint32_t>(value()));
    });
  }

  const int64_t limit = caps.max_workgroups_per_dimension;
  const int64_t most = limit * limit > (int64_t{1} << 31) ? (int64_t{1} << 31) : limit * limit * limit;
  BoundParts out;
  for (int64_t first = 0; first < d.groups; first += most) {
    split_grid(std::min(most, d.groups - first), limit, bound.grid);
    bound.views[0] = to_u32(first);
    out.push_back(bound);
  }
  return out;
}

int64_t reach_bytes(const Operand& o) {
  const View::Range r = bytes_of(o.dtype, o.view.range());
  return r.end - r.begin;
}

int64_t bindings_needed(const Dispatch& d, const Caps& caps) {
  // Different storages may be placed anywhere, so only operands of one storage can share.
  const auto apart = [](int32_t storage) { return Placement{.buffer = storage}; };
  int64_t n = 0;
  for (const Cluster& c : make_clusters(d, caps, apart))
    n += ceil_div(c.bytes.end - c.bytes.begin, segment_bytes(caps));
  return n;
}

bool fits(const Dispatch& d, const Caps& caps) {
  return bindings_needed(d, caps) <= caps.max_storage_buffers;
}

bool encoded_are_whole(const Dispatch& d, const Caps& caps) {
  return std::ranges::none_of(d.operands, [&](const Operand& o) {
    if (!o.present() || !is_encoded(o.dtype)) return false;
    const View::Range r = byte_range(o);
    return r.end - r.begin > segment_bytes(caps);
  });
}

}  // namespace rlx
