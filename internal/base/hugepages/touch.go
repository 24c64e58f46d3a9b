package hugepages

// CacheLine is the number of bytes of a cache line on common processors. A wrong guess does no harm.
const CacheLine = 64

// Touch reads a byte of each cache line of data, so that they come from memory
// together. Decoding entries, each of which says where the next begins, would wait
// for one line after another. Touch is not inlined, since the compiler would see
// that the result is unused and read nothing.
//
//go:noinline
func Touch(data []byte) (all byte) {
	for i := 0; i < len(data); i += CacheLine {
		all ^= data[i]
	}
	return all
}
