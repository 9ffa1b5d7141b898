// A step of a recurrent layer behind its product: a thread for each element of the state.
//
// Defines: T (element type), KIND (0: LSTM, 1: GRU, 2: tanh, 3: ReLU), BIAS (1: there is one).
// Buffers: 0 gates, 1 inputs, 2 bias, 3 the state before, 4 cell, 5 the new state, 6 arguments. What
// there is not stands for another buffer. The grid is [width, batch].

#if KIND == 0
#define GATES 4
#elif KIND == 1
#define GATES 3
#else
#define GATES 1
#endif

static inline float logistic(float x) {
  return 1.0f / (1.0f + exp(-x));
}

kernel void recurrent_cell(device const T* gates [[buffer(0)]],
                           device const T* inputs [[buffer(1)]],
                           device const T* bias [[buffer(2)]],
                           device const T* before [[buffer(3)]],
                           device T* cell [[buffer(4)]],
                           device T* hidden [[buffer(5)]],
                           constant RecurrentArgs& p [[buffer(6)]],
                           uint2 at [[thread_position_in_grid]]) {
  const long place = long(at.y) * p.width + long(at.x);
  const long first = long(at.y) * GATES * p.width + long(at.x);
  float input[GATES];
  float state[GATES];
  for (int gate = 0; gate < GATES; ++gate) {
    input[gate] = float(inputs[first + gate * p.width]);
    state[gate] = float(gates[first + gate * p.width]);
#if BIAS
    state[gate] += float(bias[long(at.x) + gate * p.width]);
#endif
  }
#if KIND == 0
  const float kept = logistic(input[1] + state[1]) * float(cell[place]);
  const float next = kept + logistic(input[0] + state[0]) * precise::tanh(input[2] + state[2]);
  cell[place] = T(next);
  hidden[place] = T(logistic(input[3] + state[3]) * precise::tanh(next));
#elif KIND == 1
  const float next = precise::tanh(input[2] + logistic(input[0] + state[0]) * state[2]);
  hidden[place] = T((float(before[place]) - next) * logistic(input[1] + state[1]) + next);
#elif KIND == 2
  hidden[place] = T(precise::tanh(input[0] + state[0]));
#else
  const float sum = input[0] + state[0];
  hidden[place] = T(sum < 0.0f ? 0.0f : sum);
#endif
}
