package sstable

const cacheLine = 64 // bytes, on the processors that matter; a guess elsewhere does no harm

// touch reads a byte of each cache line of data, so that they come from memory
// all at once. Who walks through entries whose lengths tell where the next one
// begins waits for one line after another. It is not inlined, for then the
// compiler would see that nobody needs the result, and read nothing.
//
//go:noinline
func touch(data []byte) (all byte) {
	for i := 0; i < len(data); i += cacheLine {
		all ^= data[i]
	}
	return all
}
