package sstable

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/util"
)

// blockWriter builds one block at a time: LevelDB's table_format.md, "block".
// The zero value with a restart interval is ready; buffers are reused.
type blockWriter struct {
	interval int // entries between restart points, at least 1

	buf      []byte
	restarts []uint32
	lastKey  []byte // of add
	counter  int    // entries since the last restart point
	entries  int
	valueLen int    // of the last entry
	longKeys uint64 // bytes of the long keys since the last restart point; see unfoldsTooFar
}

// add appends an entry. The caller must add keys in ascending order.
func (w *blockWriter) add(key, value []byte) {
	w.addShared(key, value, base.SharedPrefixLen(w.lastKey, key))
	w.lastKey = append(w.lastKey[:0], key...)
}

// addShared is add for callers that know how many bytes key shares with the last one.
// At a restart point the number does not matter. add must not follow it in a block.
func (w *blockWriter) addShared(key, value []byte, shared int) {
	if w.entries == 0 || w.counter == w.interval || len(key) > plainKeyLen && w.unfoldsTooFar(len(key)) {
		w.restarts = append(w.restarts, uint32(len(w.buf)))
		w.counter, w.longKeys, shared = 0, 0, 0
	}
	if len(key) > plainKeyLen {
		w.longKeys += uint64(len(key))
	}
	unshared, valueLen := len(key)-shared, len(value)
	if shared|unshared|valueLen < 0x80 {
		w.buf = append(w.buf, byte(shared), byte(unshared), byte(valueLen))
	} else {
		w.buf = util.AppendUvarint32(w.buf, uint32(shared))
		w.buf = util.AppendUvarint32(w.buf, uint32(unshared))
		w.buf = util.AppendUvarint32(w.buf, uint32(valueLen))
	}
	w.buf = append(w.buf, key[shared:]...)
	w.buf = append(w.buf, value...)
	w.counter++
	w.entries++
	w.valueLen = valueLen
}

// unfoldsTooFar reports whether readers would refuse the restart interval if a key of that length were added to it.
func (w *blockWriter) unfoldsTooFar(keyLen int) bool {
	return unfoldsTooFar(w.longKeys+uint64(keyLen), len(w.buf)-int(w.restarts[len(w.restarts)-1]))
}

func (w *blockWriter) empty() bool { return w.entries == 0 }

// size returns the length in bytes that the block would have after finish.
func (w *blockWriter) size() int { return len(w.buf) + 4*max(1, len(w.restarts)) + 4 }

// finish appends the restart array and returns the block, which is valid until reset.
func (w *blockWriter) finish() []byte {
	if w.entries == 0 {
		w.restarts = append(w.restarts, 0) // readers expect one, as LevelDB writes
	}
	for _, r := range w.restarts {
		w.buf = util.AppendFixed32(w.buf, r)
	}
	w.buf = util.AppendFixed32(w.buf, uint32(len(w.restarts)))
	return w.buf
}

func (w *blockWriter) reset() {
	w.buf, w.restarts, w.lastKey = w.buf[:0], w.restarts[:0], w.lastKey[:0]
	w.counter, w.entries, w.longKeys = 0, 0, 0
}
