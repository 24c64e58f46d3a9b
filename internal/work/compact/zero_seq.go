package compact

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/version"
)

// zeroSeqs is the state of a merger for writing entries with sequence number 0. A value that all readers see and that
// is the oldest entry of its key needs no other number. Sequence numbers in random order use three or four bytes of
// each entry, which do not compress; zeros use almost none.
//
// This is correct because no older entry can appear in the same level or below, and all newer entries have numbers
// above 0. Every snapshot sees all entries of the lowest stratum, so none sees an entry that it did not see before.
type zeroSeqs struct {
	ikey    []byte // scratch
	largest uint64 // the largest sequence number that entries of the inputs have or originally had
	known   bool   // largest is set
}

// addOldest writes an entry that has sequence number 0 already or gets it. The table records
// the largest original number of its entries for Repair.
func (m *merger) addOldest(user []byte, seq uint64, kind base.Kind, value []byte) error {
	z := &m.zeros
	if seq == 0 {
		if !z.known {
			z.largest, z.known = m.largestInputSeq(), true
		}
		seq = z.largest
	}
	z.ikey = base.AppendInternalKey(z.ikey[:0], user, 0, kind)
	if err := m.out.Add(z.ikey, value); err != nil {
		return err
	}
	m.out.CoverSeq(seq)
	return nil
}

// largestInputSeq returns the largest sequence number that an entry of the inputs that overlap the piece has or
// originally had. Tables of other programs do not record it; with one of them, it returns the newest visible number.
func (m *merger) largestInputSeq() (largest uint64) {
	for _, f := range m.piece.tables(m.s.o.Cmp, m.c.AllInputs()) {
		seq, ok := m.largestSeq(f)
		if !ok {
			return m.job.retention.visible[len(m.job.retention.visible)-1]
		}
		largest = max(largest, seq)
	}
	return largest
}

func (m *merger) largestSeq(f *version.FileMeta) (seq uint64, ok bool) {
	r, err := m.s.o.Cache.Ref(f)
	if err != nil {
		return 0, false // reading its entries will report the error
	}
	defer r.Unref()
	p, ok := r.Properties()
	return p.LargestSeq, ok && p.LargestSeq <= base.MaxSeq
}
