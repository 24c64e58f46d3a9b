package compact

import (
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/manifest"
)

// zeroSeqs is what a merger needs to write entries with sequence number 0: a value that
// everybody sees, and that is the oldest entry of its key, needs no other. Random
// numbers take three or four bytes of each entry, which do not compress; a zero takes
// next to none.
//
// It is sound because nothing older can come to be beside or below such an entry, and
// all that is newer has a number above 0. No snapshot is older than what the lowest
// stratum holds, so none comes to see what it did not.
type zeroSeqs struct {
	ikey  []byte // scratch
	most  uint64 // the greatest number that entries of the inputs had before they got 0
	known bool   // most is
}

// addOldest writes an entry that has sequence number 0 already or gets it. The table
// notes up to where its entries reached, which Repair wants to know.
func (m *merger) addOldest(user []byte, seq uint64, kind base.Kind, value []byte) error {
	z := &m.zeros
	if seq == 0 {
		if !z.known {
			z.most, z.known = m.mostOfInputs(), true
		}
		seq = z.most
	}
	z.ikey = base.AppendInternalKey(z.ikey[:0], user, 0, kind)
	if err := m.out.Add(z.ikey, value); err != nil {
		return err
	}
	m.out.CoverSeq(seq)
	return nil
}

// mostOfInputs returns the greatest sequence number that an entry of the inputs that
// meet the piece has or had. Where a table of another program, which does not say it,
// holds what one of ours held, it is the newest number of all.
func (m *merger) mostOfInputs() (most uint64) {
	for _, f := range m.piece.tables(m.s.o.Cmp, m.c.AllInputs()) {
		seq, ok := m.largestSeq(f)
		if !ok {
			return m.job.visible[len(m.job.visible)-1]
		}
		most = max(most, seq)
	}
	return most
}

func (m *merger) largestSeq(f *manifest.FileMeta) (seq uint64, ok bool) {
	r, err := m.s.o.Cache.Ref(f)
	if err != nil {
		return 0, false // reading its entries will tell
	}
	defer r.Unref()
	p, ok := r.Properties()
	return p.LargestSeq, ok && p.LargestSeq <= base.MaxSeq
}
