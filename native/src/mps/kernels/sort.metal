// The elements of lines in order, with their places. Pairs of a key, whose bits are in the order of
// the elements, and a place are all different, so a bitonic network sorts them stably. Lines are
// padded to a power of two with pairs that come last. Short lines are sorted by a group each; long
// ones in device memory, by one launch for each step that reaches further than a group's memory.
//
// Defines:
//   T           element type
//   KEY         uint, or ulong where T is long
//   REAL        1 where T is a float type
//   DESCENDING  1 for the largest first
//   SHARED      the most pairs that a group sorts in its own memory, a power of two
//
// NaN is above everything, and the two zeros are equal.

static KEY key_of(T value) {
#if REAL
  const float real = float(value);
  const uint bits = as_type<uint>(real == 0.0f ? 0.0f : real);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint key = is_nan ? 0xffffffffu : bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
#else
  // The sign bit upside down puts negative numbers first.
  const KEY key = KEY(value) ^ (KEY(1) << (8 * sizeof(KEY) - 1));
#endif
#if DESCENDING
  return ~key;
#else
  return key;
#endif
}

static bool comes_later(KEY a, uint a_place, KEY b, uint b_place) {
  return a > b || (a == b && a_place > b_place);
}

/// The first of the `i`-th couple of pairs that stand `reach` apart.
static long couple(long i, long reach) {
  return 2 * i - (i & (reach - 1));
}

/// All steps from `reach` down to 1 over `count` pairs in the group's memory, which are those from
/// `begin` on of a padded line; runs of `run` pairs come out in order, up and down in turns.
static void merge(threadgroup KEY* keys, threadgroup uint* places, long count, long begin, long run,
                  long reach, uint thread_index, uint threads) {
  for (; reach > 0; reach /= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (long i = thread_index; i < count / 2; i += threads) {
      const long a = couple(i, reach);
      const long b = a + reach;
      const bool up = ((begin + a) & run) == 0;
      if (comes_later(keys[a], places[a], keys[b], places[b]) == up) {
        const KEY key = keys[a];
        const uint place = places[a];
        keys[a] = keys[b];
        places[a] = places[b];
        keys[b] = key;
        places[b] = place;
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

/// Sorts lines that are padded to at most SHARED. A group for each line, of any number of threads.
/// Buffers: 0 values, 1 places, 2 source, 3 arguments, 4 lines of these three.
kernel void sort_lines(device T* values [[buffer(0)]],
                       device long* out_places [[buffer(1)]],
                       device const T* source [[buffer(2)]],
                       constant SortArgs& s [[buffer(3)]],
                       constant LinesArgs& p [[buffer(4)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint3 group_size [[threads_per_threadgroup]],
                       uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup KEY keys[SHARED];
  threadgroup uint places[SHARED];
  values += line_start(p, group.x, 0);
  out_places += line_start(p, group.x, 1);
  source += line_start(p, group.x, 2);
  for (long i = thread_index; i < s.padded; i += group_size.x) {
    keys[i] = i < p.length ? key_of(source[i * p.steps[2]]) : ~KEY(0);
    places[i] = uint(i);
  }
  for (long run = 2; run <= s.padded; run *= 2) {
    merge(keys, places, s.padded, 0, run == s.padded ? 0 : run, run / 2, thread_index,
          group_size.x);
  }
  for (long i = thread_index; i < s.count; i += group_size.x) {
    const long place = places[i];
    values[i * p.steps[0]] = source[place * p.steps[2]];
    out_places[i * p.steps[1]] = place;
  }
}

/// Writes the pairs of all lines. The grid of threads is [padded, lines].
/// Buffers: 0 keys, 1 places, 2 source, 3 arguments, 4 lines.
kernel void sort_load(device KEY* keys [[buffer(0)]],
                      device uint* places [[buffer(1)]],
                      device const T* source [[buffer(2)]],
                      constant SortArgs& s [[buffer(3)]],
                      constant LinesArgs& p [[buffer(4)]],
                      uint3 at [[thread_position_in_grid]]) {
  const long i = at.x;
  const long pair = at.y * s.padded + i;
  keys[pair] = i < p.length ? key_of(source[line_start(p, at.y, 2) + i * p.steps[2]]) : ~KEY(0);
  places[pair] = uint(i);
}

/// One step over all lines: couples that stand s.reach apart. The grid of threads is
/// [padded / 2, lines]. Buffers: 0 keys, 1 places, 2 arguments.
kernel void sort_step(device KEY* keys [[buffer(0)]],
                      device uint* places [[buffer(1)]],
                      constant SortArgs& s [[buffer(2)]],
                      uint3 at [[thread_position_in_grid]]) {
  const long first = couple(at.x, s.reach);
  const bool up = (first & s.run) == 0 || s.run == s.padded;
  const long a = at.y * s.padded + first;
  const long b = a + s.reach;
  if (comes_later(keys[a], places[a], keys[b], places[b]) == up) {
    const KEY key = keys[a];
    const uint place = places[a];
    keys[a] = keys[b];
    places[a] = places[b];
    keys[b] = key;
    places[b] = place;
  }
}

/// The steps that stay within SHARED pairs: from runs of 2 up to SHARED where s.run is 0, otherwise
/// the last ones of s.run. The grid of groups is [padded / SHARED, lines], of any number of threads.
/// Buffers as of sort_step.
kernel void sort_merge(device KEY* keys [[buffer(0)]],
                       device uint* places [[buffer(1)]],
                       constant SortArgs& s [[buffer(2)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint3 group_size [[threads_per_threadgroup]],
                       uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup KEY own_keys[SHARED];
  threadgroup uint own_places[SHARED];
  const long begin = long(group.x) * SHARED;
  const long first = group.y * s.padded + begin;
  for (long i = thread_index; i < SHARED; i += group_size.x) {
    own_keys[i] = keys[first + i];
    own_places[i] = places[first + i];
  }
  if (s.run == 0) {
    for (long run = 2; run <= SHARED; run *= 2) {
      merge(own_keys, own_places, SHARED, begin, run, run / 2, thread_index, group_size.x);
    }
  } else {
    merge(own_keys, own_places, SHARED, begin, s.run == s.padded ? 0 : s.run, SHARED / 2,
          thread_index, group_size.x);
  }
  for (long i = thread_index; i < SHARED; i += group_size.x) {
    keys[first + i] = own_keys[i];
    places[first + i] = own_places[i];
  }
}

/// Writes the first elements and their places. The grid of threads is [count, lines].
/// Buffers: 0 values, 1 places of the result, 2 source, 3 places of the pairs, 4 arguments, 5 lines.
kernel void sort_store(device T* values [[buffer(0)]],
                       device long* out_places [[buffer(1)]],
                       device const T* source [[buffer(2)]],
                       device const uint* places [[buffer(3)]],
                       constant SortArgs& s [[buffer(4)]],
                       constant LinesArgs& p [[buffer(5)]],
                       uint3 at [[thread_position_in_grid]]) {
  const long place = places[at.y * s.padded + at.x];
  values[line_start(p, at.y, 0) + at.x * p.steps[0]] =
      source[line_start(p, at.y, 2) + place * p.steps[2]];
  out_places[line_start(p, at.y, 1) + at.x * p.steps[1]] = place;
}
