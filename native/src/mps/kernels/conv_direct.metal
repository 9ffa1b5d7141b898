// Convolutions whose groups have few output channels, depthwise ones above all: one thread per
// element of the result walks over its patch and accumulates in float.
//
// Defines: T (float, half or bfloat), INDEX (int, or long where offsets need it), TRANSPOSED.
// Buffers: 0 weights, 1 input, 2 bias (any buffer where p.has_bias is 0), 3 result, 4 arguments as
// gemm.metal has them. The grid of threads is [p.n, p.m, groups of channels].

kernel void conv_direct(device const T* w [[buffer(0)]],
                        device const T* x [[buffer(1)]],
                        device const T* bias [[buffer(2)]],
                        device T* c [[buffer(3)]],
                        constant ConvArgs& p [[buffer(4)]],
                        uint3 at [[thread_position_in_grid]]) {
  INDEX j = INDEX(at.x);
  int place[3];
  place[2] = int(j % p.out[2]);
  j /= p.out[2];
  place[1] = int(j % p.out[1]);
  j /= p.out[1];
  place[0] = int(j % p.out[0]);
  const INDEX image = j / p.out[0];
  const INDEX group = INDEX(at.z);
  const INDEX channel = group * INDEX(p.m) + INDEX(at.y);
  w += long(group) * p.w_group + long(at.y) * p.w_out;
  x += long(image) * p.x_image + long(group) * p.channels * p.x_channel;
  float sum = p.has_bias != 0 ? float(bias[channel * INDEX(p.bias_step)]) : 0.0f;
  for (int tap = 0; tap < p.taps; ++tap) {
    const int taps[3] = {tap / (p.window[1] * p.window[2]), tap / p.window[2] % p.window[1],
                         tap % p.window[2]};
    bool inside = true;
    INDEX from = 0;
    INDEX weight = 0;
    for (int d = 0; d < 3; ++d) {
#if TRANSPOSED
      const int scaled = place[d] + p.padding[d] - taps[d] * p.dilation[d];
      const int source = scaled / p.stride[d];
      inside = inside && scaled >= 0 && source * p.stride[d] == scaled && source < p.in[d];
#else
      const int source = place[d] * p.stride[d] - p.padding[d] + taps[d] * p.dilation[d];
      inside = inside && source >= 0 && source < p.in[d];
#endif
      from += source * INDEX(p.x_step[d]);
      weight += taps[d] * INDEX(p.w_step[d]);
    }
    if (!inside) {
      continue;
    }
    for (INDEX i = 0; i < INDEX(p.channels); ++i) {
      sum += float(w[weight + i * INDEX(p.w_in)]) * float(x[from + i * INDEX(p.x_channel)]);
    }
  }
  c += long(image) * p.c_image + long(channel) * p.c_channel;
  c[place[0] * INDEX(p.c_step[0]) + place[1] * INDEX(p.c_step[1]) +
    place[2] * INDEX(p.c_step[2])] = T(sum);
}
