package memtable

// sizeSample is how many entries SizeBetween samples at least, if there are so many. The error of the
// estimate is then about 1/16 of it (one standard deviation).
const sizeSample = 256

// SizeBetween estimates the arena bytes of the entries with user keys from start to limit, limit
// excluded; nil means no bound. Up to sizeSample entries are added up exactly. Of more, those with
// towers of one height are, each for as many others as there are on average: the heights are random.
func (m *Memtable) SizeBetween(start, limit []byte) uint64 {
	before := uint32(end) // the last entry before start on the present level
	for level := int(m.height.Load()) - 1; level >= 0; level-- {
		next := m.next(before, level).Load()
		for start != nil && next != end && m.compare(m.userKey(next), start) < 0 {
			before, next = next, m.next(next, level).Load()
		}
		var sample, size uint64
		for next != end && (limit == nil || m.compare(m.userKey(next), limit) < 0) {
			sample++
			size += nodeSize(1, int(m.keyLen(next)), int(m.valueLen(next)))
			next = m.next(next, level).Load()
		}
		if sample >= sizeSample || level == 0 {
			return size << (level * heightBits)
		}
	}
	return 0
}
