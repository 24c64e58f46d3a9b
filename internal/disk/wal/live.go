package wal

import "io"

// ReaderOptions.Live is for a log to which a writer, often in another process, appends meanwhile. If the writer appends
// through memory, the length of the file says nothing: zeros follow the last record, and records replace them. The
// order of the writer's stores makes reading safe: a header that is there covers bytes that are there. So
//
//   - if the last byte of a header, its kind, is zero, the record is not there yet. That is the end for now, even if its
//     later chunks can be read. Nothing behind it is read, however long the zeros are;
//   - the header of the first record of a block is read first, by a call of its own. Of a later record, the header may be
//     read after the writer has stored it, and the bytes behind it, on a machine that reorders loads, before. Then the
//     checksum is wrong. So whatever does not decode is read once more, with its header first, and only then judged by
//     the tail rule;
//   - a file that is shorter than its size was cut by its writer, which had finished the log. Its end is where the read
//     ended.
//
// An end of a Live log is therefore not final: Continue looks again. If the writer was killed, what it was writing
// stays the end until the database is opened.

// pendingAt is for a chunk whose block is not in memory. If the log is Live, it reads the header alone and returns a
// fault if that is not there yet. So zeros cost no more than that. And the block is read after the header, by another
// call: of a chunk whose header was seen, the bytes that it covers were stored before, so they are read.
func (r *Reader) pendingAt(off int64) (*fault, error) {
	if !r.o.Live || off-off%blockSize == r.block.off || r.size-off < headerSize {
		return nil, nil
	}
	var head [headerSize]byte
	if err := r.readFull(head[:], off); err != nil {
		return nil, err
	}
	if head[headerSize-1] == kindZero {
		return notYet(off), nil
	}
	return nil, nil
}

func notYet(off int64) *fault {
	return &fault{at: off, pending: true, why: "the header of a chunk is not written yet"}
}

// wasCut is called when a read has found less than the size. If the log is Live, its writer has finished it and removed
// the zeros behind its last record: the reader then continues with what is left.
func (r *Reader) wasCut() bool {
	if !r.o.Live || r.short < r.end || r.short >= r.size {
		return false
	}
	r.pos, r.size, r.block.off = r.end, r.short, -1
	return true
}

// FindAppended looks for what another program has appended behind the space that a killed SieveDB has reserved, as
// LevelDB with reuse_logs does. It is for a Live log that has grown, and for a log whose tail is a hole, at whose end
// Next has returned io.EOF or a *base.CorruptionError. If accept takes the first complete record that begins a block,
// Skip leads to it. accept decides whether it continues the log without a gap.
//
// Reserved space ends with a block, and each later block of a record that was not finished begins with the header of a
// chunk. So a copy of a log, in a value of that record, is not mistaken for a record.
func (r *Reader) FindAppended(accept func(record []byte) bool) (bool, error) {
	if r.err == nil || r.tail.Kind != TailHole && !(r.o.Live && r.tail.Kind == TailClean) {
		return false, nil
	}
	end, offset, split := r.end, r.offset, r.split
	defer func() { r.end, r.offset, r.split = end, offset, split }()
	r.block.off = -1
	for off := blockEnd(end); off < r.size; off += blockSize {
		r.pos = off
		record, bad, err := r.readRecord()
		switch {
		case err == io.ErrUnexpectedEOF && r.o.Live: // the writer has cut it
			return false, nil
		case err != nil:
			return false, err
		case bad == nil && accept(record):
			r.tail.Resume = off
			return true, nil
		case bad == nil:
			return false, nil
		}
	}
	return false, nil
}

// Ahead estimates how many bytes of records follow End: the rest of the file, or less if the block that was read last
// ends with zeros, as the last one of a log does whose space was reserved.
func (r *Reader) Ahead() int64 {
	if r.block.off < 0 || r.end < r.block.off {
		return r.size - r.end
	}
	used := r.block.off + int64(usedLen(r.block.data))
	if used == r.block.off+blockSize {
		return r.size - r.end
	}
	return max(0, used-r.end)
}
