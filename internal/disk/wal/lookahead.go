package wal

// finding is the result of the look-ahead.
type finding struct {
	at int64 // where the record found begins, -1 if there is none
	// zeroSector: before the record found, or before the end of the log, a whole sector
	// outside chunks with valid checksums contains only zeros.
	zeroSector bool
}

// lookAhead searches the bytes from off to the end of the log for a complete, plausible record. A chunk with a valid
// checksum is skipped as a unit, so no byte is examined twice; between such chunks every byte is tried.
//
// Trying only the beginnings of later blocks would be cheaper, but two damaged places in two
// blocks would then hide the records after the second.
func (r *Reader) lookAhead(off int64) (finding, error) {
	found := finding{at: -1}
	r.asm.open = false
	for off < r.size && found.at < 0 {
		if err := r.load(off); err != nil {
			return found, err
		}
		if at := int(off - r.block.off); at == 0 && len(r.block.data) == blockSize && allZero(r.block.data) {
			found.zeroSector, r.asm.open = true, false
		} else {
			r.searchBlock(at, &found)
		}
		off = blockEnd(off)
	}
	return found, nil
}

// searchBlock is lookAhead within r.block, from data[at:] on. r.asm carries a record from one block to the next.
func (r *Reader) searchBlock(at int, found *finding) {
	data := r.block.data
	wild := -1 // beginning of the present stretch outside valid chunks, -1: none
	for at <= len(data)-headerSize {
		c, ok := r.block.tryChunk(at)
		if !ok {
			if wild < 0 {
				wild = at
				r.asm.open = false
			}
			at++
			continue
		}
		if wild >= 0 {
			found.zeroSector = found.zeroSector || hasZeroSector(data, wild, at)
			wild = -1
		}
		if r.joinsPlausible(c) {
			found.at = r.asm.start
			return
		}
		at = int(c.end - r.block.off)
	}
	if wild >= 0 {
		found.zeroSector = found.zeroSector || hasZeroSector(data, wild, len(data))
	}
}

// joinsPlausible adds a chunk that the look-ahead found, and reports whether it ends a plausible record. A chunk that
// does not continue the ones before it begins a new record, or is the remainder of a record whose beginning is lost.
func (r *Reader) joinsPlausible(c chunk) bool {
	record, done, bad := r.asm.add(c, r.o.MaxRecord, r.size)
	if bad != nil {
		r.asm.open = false
		record, done, bad = r.asm.add(c, r.o.MaxRecord, r.size)
	}
	if bad != nil || !done {
		return false
	}
	return r.o.Plausible == nil || r.o.Plausible(record, r.asm.start-r.end)
}

// hasZeroSector reports whether data[from:to] contains a whole sector of zeros. data begins at
// the beginning of a sector.
func hasZeroSector(data []byte, from, to int) bool {
	from = (from + sectorSize - 1) / sectorSize * sectorSize
	for ; from+sectorSize <= to; from += sectorSize {
		if allZero(data[from : from+sectorSize]) {
			return true
		}
	}
	return false
}
