// The places of index_put: for each element of the broadcast indices the offset in the result that
// they name, and the offset of its value. One launch for each index tensor adds its dim. A number
// counts from the end where it is negative; where one is out of range the place is -1.
//
// Define INDEX_T: long or int. One thread per element; the first dim of the arguments runs fastest.
// Buffers: 0 places, 1 sources, 2 index, 3 arguments, 30 where an index out of range is told.

kernel void index_places(device long* places [[buffer(0)]],
                         device long* sources [[buffer(1)]],
                         device const INDEX_T* index [[buffer(2)]],
                         constant IndexArgs& p [[buffer(3)]],
                         device atomic_int* fault [[buffer(30)]],
                         uint3 at [[thread_position_in_grid]]) {
  long element = at.x;
  long source = 0;
  for (int d = 0; d < p.ndim; ++d) {
    const long i = element % p.sizes[d];
    element /= p.sizes[d];
    index += i * p.index[d];
    source += i * p.src[d];
  }
  const long before = p.first != 0 ? 0 : places[at.x];
  long number = long(*index);
  number += number < 0 ? p.length : 0;
  const bool inside = number >= 0 && number < p.length;
  if (!inside) {
    atomic_store_explicit(fault, 1, memory_order_relaxed);
  }
  places[at.x] = inside && before >= 0 ? before + number * p.stride : -1;
  if (p.first != 0) {
    sources[at.x] = source;
  }
}
