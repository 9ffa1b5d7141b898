// Discrete Fourier transforms of lines of any length, in float.
//
// A line passes once for each prime factor of its length (and for each factor 4) from one buffer to
// another. After passes whose factors multiply to `done` a line holds, at k * p + i with
// p = length / done, the transform of length `done` of every p-th element from i on. A pass of
// factor r joins r of them:
//   out[k * p' + i] = sum over q < r of w^(q * k) * in[(k % done) * p + i + q * p'],
//   p' = p / r, w = exp(direction * 2 pi i / (done * r)).
//
// Lines lie one behind the other; complex numbers are float2. All grids of threads are
// [elements of a line, lines].

static float2 complex_of(float value) {
  return float2(value, 0.0f);
}

static float2 complex_of(float2 value) {
  return value;
}

/// Fills the lines. Define FROM: float or float2, the type of the source.
/// Buffers: 0 lines, 1 source, 2 arguments of the source's lines.
kernel void fft_load(device float2* to [[buffer(0)]],
                     device const FROM* from [[buffer(1)]],
                     constant LinesArgs& p [[buffer(2)]],
                     uint3 at [[thread_position_in_grid]]) {
  const long source = line_start(p, at.y, 0) + at.x * p.steps[0];
  to[at.y * p.length + at.x] = complex_of(from[source]);
}

/// One pass. Buffers: 0 out, 1 in, 2 arguments.
kernel void fft_pass(device float2* out [[buffer(0)]],
                     device const float2* in [[buffer(1)]],
                     constant FftArgs& p [[buffer(2)]],
                     uint3 at [[thread_position_in_grid]]) {
  const long before = p.length / p.done;
  const long after = before / p.factor;
  const long k = at.x / after;
  const long i = at.x % after;
  const long all = p.done * p.factor;
  device const float2* line = in + at.y * p.length + k % p.done * before + i;
  float2 sum = float2(0.0f, 0.0f);
  for (long q = 0; q < p.factor; ++q) {
    // In half turns, from an exact fraction.
    const float angle = p.direction * 2.0f * (float(q * k % all) / float(all));
    const float real = cospi(angle);
    const float imag = sinpi(angle);
    const float2 value = line[q * after];
    sum.x += value.x * real - value.y * imag;
    sum.y += value.x * imag + value.y * real;
  }
  out[at.y * p.length + at.x] = sum;
}

/// Writes the first elements of each line, scaled.
/// Buffers: 0 result, 1 lines, 2 arguments, 3 arguments of the result's lines.
kernel void fft_store(device float2* to [[buffer(0)]],
                      device const float2* from [[buffer(1)]],
                      constant FftArgs& f [[buffer(2)]],
                      constant LinesArgs& p [[buffer(3)]],
                      uint3 at [[thread_position_in_grid]]) {
  to[line_start(p, at.y, 0) + at.x * p.steps[0]] = from[at.y * f.length + at.x] * f.scale;
}
