package sstable

const cacheLine = 64 // bytes, on common processors; a wrong guess does no harm

// touch reads a byte of each cache line of data, so that they come from memory
// together. Decoding entries, each of which says where the next begins, would wait
// for one line after another. touch is not inlined, since the compiler would see
// that the result is unused and read nothing.
//
//go:noinline
func touch(data []byte) (all byte) {
	for i := 0; i < len(data); i += cacheLine {
		all ^= data[i]
	}
	return all
}
